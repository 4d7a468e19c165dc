package hosted_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// The test's own binary is the guest.
func TestMain(m *testing.M) {
	if os.Getenv(guest.WorkEnv) != "" || len(os.Args) > 1 && os.Args[1] == guest.MainArg {
		os.Exit(guest.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestTheHostRunsPrograms(t *testing.T) {
	t.Parallel()
	self := selfWith(t, "python3", "node")
	enginetest.Run(t, enginetest.Options{
		New: func(t *testing.T) engine.Engine {
			return hosted.New(&host.Driver{Work: t.TempDir(), Owner: proc.Owner(), Environ: os.Environ()})
		},
		Languages: []string{"python", "javascript"},
		Sandbox:   sandbox.Spec{Profile: sandbox.Dev, Guest: self},
	})
}

// inProcessSandbox returns the suites' options for the driver process.
func inProcessSandbox(t *testing.T) enginetest.Options {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the process sandbox is Linux's")
	}
	self := selfWith(t, "/usr/bin/python3", "/usr/bin/node")
	cache := t.TempDir() // a room has one, too
	return enginetest.Options{
		New: func(*testing.T) engine.Engine {
			d := process.New(self, []string{guest.MainArg})
			d.Cache = cache
			e := hosted.NewWarm(d, hosted.Warm{Size: 1})
			e.Warm(sandbox.Spec{Guest: self, Args: []string{guest.MainArg}})
			return e
		},
		Languages: []string{"python", "javascript"},
		Sandbox:   sandbox.Spec{Guest: self, Args: []string{guest.MainArg}},
		// Node alone needs more.
		Memory: 256 << 20, Stream: 3, Runs: 8,
		// A program under this driver may start others, and share memory with them;
		// a test below checks that they end with it. The first process belongs to the
		// program's own sandbox, and a pidfd of it alone is harmless; the suite tries
		// what it could be used for.
		Without: []string{"exec", "a subprocess", "fork", "memory that outlives the run", "a pidfd of the first process"},
	}
}

func TestTheProcessSandboxRunsPrograms(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, inProcessSandbox(t))
}

func TestBadCodeEndsAsExpectedAndHarmsNoOtherRun(t *testing.T) {
	t.Parallel()
	enginetest.Bad(t, inProcessSandbox(t))
}

func TestAttacksFromInsideFail(t *testing.T) {
	t.Parallel()
	enginetest.Attack(t, inProcessSandbox(t))
}

func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	enginetest.Leak(t, inProcessSandbox(t))
}

// The attacks that this engine skips in the suite end with the run.
func TestProcessesAndSharedMemoryEndWithTheProgram(t *testing.T) {
	t.Parallel()
	o := inProcessSandbox(t)
	e := o.New(t)
	t.Cleanup(func() { _ = e.Close() })
	run := func(source string) bridge.Value {
		t.Helper()
		result, err := e.Run(t.Context(), engine.Job{
			Run: "run-left", Owner: "tester", Sandbox: o.Sandbox,
			Program: bridge.Program{Language: "python", Source: source, Limits: bridge.Limits{Wall: 20_000}},
		}, quiet{})
		if err != nil || result.Outcome.Failure != nil {
			t.Fatalf("%+v, %v", result, err)
		}
		return result.Outcome.Value
	}
	const name = "left-by-program" // of the maximum length
	left := run(`
import ctypes, os, time
libc = ctypes.CDLL(None)
segment = libc.shmget(42, 4096, 0o1600)
try:
    open("/dev/shm/left", "w").write("1")
except OSError:
    pass
ready, done = os.pipe()
if os.fork() == 0:
    os.setsid()
    libc.prctl(15, b"` + name + `")
    os.write(done, b"1")
    time.sleep(1000)
os.read(ready, 1)
segment >= 0`)
	if left != bridge.Value(true) {
		t.Fatalf("the program shared no memory: %v", left)
	}
	found := run(`
import ctypes, os
[ctypes.CDLL(None).shmget(42, 4096, 0) >= 0, os.path.exists("/dev/shm/left")]`)
	if diff := cmp.Diff([]bridge.Value{false, false}, found); diff != "" {
		t.Errorf("the next run sees memory of the previous one (-want +got):\n%s", diff)
	}
	for _, p := range processes(t) {
		if strings.Contains(p, name) {
			t.Errorf("a process of an ended run is still running: %s", p)
		}
	}
}

// processes returns the names of all processes on this machine.
func processes(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		name, _ := os.ReadFile(path) // which may have ended by now
		names = append(names, string(name))
	}
	return names
}

func TestTypeScriptRunsInEverySandbox(t *testing.T) {
	t.Parallel()
	self := selfWith(t, "node")
	e := hosted.New(&host.Driver{Work: t.TempDir(), Owner: proc.Owner(), Environ: os.Environ()})
	job := engine.Job{
		Run: "run-ts", Owner: "tester", Sandbox: sandbox.Spec{Profile: sandbox.Dev, Guest: self},
		Program: bridge.Program{
			Language: "typescript", Name: "main.ts", Limits: bridge.Limits{Wall: 20_000},
			Source: "interface Point { x: number }\nconst p: Point = {x: 2}\n\nif (p.x === 2) throw new Error(`no ${p.x as number}`)\n",
		},
	}
	result, err := e.Run(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := result.Outcome.Failure; f == nil || f.Message != "no 2" || f.Line != 4 || f.File != "main.ts" {
		t.Errorf("got %+v, want the error of line 4 of main.ts", f)
	}
}

// selfWith returns this binary's path if the machine has the programs.
func selfWith(t testing.TB, programs ...string) string {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("this test needs %s, which is not installed", name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

type quiet struct{ bridge.Handler }

func (quiet) Print(string, string) {}

// slow is a driver whose start never ends.
type slow struct{ sandbox.Driver }

func (slow) Name() string { return "slow" }

func (slow) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Available}
}

func (slow) Start(ctx context.Context, _ sandbox.Spec) (sandbox.Sandbox, error) {
	<-ctx.Done()
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the daemon did not answer")
}

func TestAStartHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := engine.Job{Sandbox: sandbox.Spec{Guest: os.Args[0], BestEffort: true}}
		j.Program.Limits.Wall = 50
		began := time.Now()
		if _, err := hosted.New(slow{}).Run(t.Context(), j, nil); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the start was given up after %s: was the program's time counted?", took)
		}
		over, stop := context.WithTimeoutCause(t.Context(), time.Second, engine.ErrWall)
		defer stop()
		if _, err := hosted.New(slow{}).Run(over, j, nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
			t.Errorf("after the call's own deadline it ended with %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := hosted.New(slow{}).Run(gone, j, nil); toolroom.CodeOf(err) != toolroom.CodeCancelled {
			t.Errorf("after a cancel it ended with %v", err)
		}
	})
}

// late is a driver that is unavailable at first.
type late struct {
	sandbox.Driver
	answers []sandbox.State
}

func (d *late) Probe(context.Context) sandbox.Probe {
	p := sandbox.Probe{State: d.answers[0]}
	d.answers = d.answers[1:]
	return p
}

func TestADriverThatDidNotAnswerIsProbedAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := hosted.New(&late{answers: []sandbox.State{sandbox.Inconclusive, sandbox.Available}})
		for _, step := range []struct {
			pause time.Duration
			want  sandbox.State
		}{{0, sandbox.Inconclusive}, {time.Second, sandbox.Inconclusive}, {time.Minute, sandbox.Available}, {time.Hour, sandbox.Available}} {
			time.Sleep(step.pause)
			if p := e.Probe(t.Context()); p.State != step.want {
				t.Errorf("%s later it is %s, want %s", step.pause, p.State, step.want)
			}
		}
	})
}

// mute is a driver whose probe takes all the time that it has.
type mute struct{ sandbox.Driver }

func (mute) Name() string { return "mute" }

func (mute) Probe(ctx context.Context) sandbox.Probe {
	<-ctx.Done()
	return sandbox.Probe{State: sandbox.Inconclusive, Reason: "the daemon did not answer"}
}

func TestNobodyWaitsForAProbeLongerThanTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := hosted.New(mute{})
		began := time.Now()
		go e.Languages() // waits for all of it
		synctest.Wait()
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Second, engine.ErrWall)
		defer stop()
		if p := e.Probe(ctx); p.State != sandbox.Inconclusive {
			t.Errorf("it is %s", p.State)
		}
		if _, err := e.Run(ctx, engine.Job{Sandbox: sandbox.Spec{Guest: os.Args[0]}}, nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
			t.Errorf("the run ended with %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("they waited %s", took)
		}
		if p := e.Probe(t.Context()); p.Reason != "the daemon did not answer" || time.Since(began) != time.Minute {
			t.Errorf("the next caller got %+v after %s", p, time.Since(began))
		}
	})
}

func TestCPUTimeOfChildProcessesCounts(t *testing.T) {
	t.Parallel()
	o := inProcessSandbox(t)
	e := o.New(t)
	t.Cleanup(func() { _ = e.Close() })
	if by := e.Probe(t.Context()).Holds[sandbox.LimitCPU]; !strings.Contains(by, "cgroup") {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%q counts the time of each process by itself: run as root, with cgroups", by)
		}
		t.Skipf("here %q counts the time of each process by itself", by)
	}
	spec := o.Sandbox
	spec.Limits.CPU = time.Second
	result, err := e.Run(t.Context(), engine.Job{
		Run: "run-cpu", Owner: "tester", Sandbox: spec,
		Program: bridge.Program{Language: "shell", Source: "for i in 1 2 3; do (while :; do :; done) & done; wait", Limits: bridge.Limits{Wall: 60_000, CPU: 1000}},
	}, quiet{})
	if toolroom.CodeOf(err) != toolroom.CodeResourceLimit || !strings.Contains(err.Error(), "CPU time") {
		t.Errorf("it ended with %+v, %v", result, err)
	}
}

// What a command leaves behind may hold its input without reading it.
func TestInputThatIsHeldAndNotReadDoesNotHoldTheRun(t *testing.T) {
	t.Parallel()
	o := inProcessSandbox(t)
	e := o.New(t)
	t.Cleanup(func() { _ = e.Close() })
	began := time.Now()
	result, err := e.Run(t.Context(), engine.Job{
		Run: "run-held", Owner: "tester", Sandbox: o.Sandbox,
		Program: bridge.Program{
			Language: "command", Command: []string{"sh", "-c", "setsid sleep 100 <&0 & sleep 0.3; exit 0"}, Stdin: make([]byte, 1<<20), Limits: bridge.Limits{Wall: 60_000},
		},
	}, quiet{})
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

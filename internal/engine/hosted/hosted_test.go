package hosted_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
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

// inProcessSandbox is what the suites run under the driver process.
func inProcessSandbox(t *testing.T) enginetest.Options {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the process sandbox is Linux's")
	}
	self := selfWith(t, "/usr/bin/python3", "/usr/bin/node")
	return enginetest.Options{
		New: func(*testing.T) engine.Engine {
			return hosted.NewWarm(process.New(self, []string{guest.MainArg}), hosted.Warm{Ahead: 1})
		},
		Languages: []string{"python", "javascript"},
		Sandbox:   sandbox.Spec{Guest: self, Args: []string{guest.MainArg}},
		// Node takes more by itself.
		Memory: 256 << 20, Stream: 3, Runs: 8,
		// A program under this driver may start others, which live and die with it,
		// and share memory with them; the first process is its own sandbox's.
		Without: []string{"exec", "a subprocess", "fork", "memory that outlives the run", "a pidfd of the first process"},
	}
}

func TestTheProcessSandboxRunsPrograms(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, inProcessSandbox(t))
}

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) {
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

// selfWith is this binary, on a machine that has the programs.
func selfWith(t testing.TB, programs ...string) string {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("this is tested with %s, which is not there", name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// boxes counts the sandboxes of a driver that are there.
type boxes struct {
	sandbox.Driver
	open atomic.Int32
}

func (d *boxes) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := d.Driver.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &counted{Sandbox: box, gone: sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

type counted struct {
	sandbox.Sandbox
	gone func()
}

func (b *counted) Kill(ctx context.Context) error {
	b.gone()
	return b.Sandbox.Kill(ctx)
}

func TestWarmSandboxesServeOneProgramOfTheirKindEach(t *testing.T) {
	t.Parallel()
	self := selfWith(t, "sh")
	// The path of a socket must be short, and a test's folder is not.
	d := &boxes{Driver: &host.Driver{Owner: proc.Owner(), Environ: os.Environ()}}
	e := hosted.NewWarm(d, hosted.Warm{Ahead: 1, Most: 2})
	run := func(memory int64) {
		t.Helper()
		result, err := e.Run(t.Context(), engine.Job{
			Run: "run-warm", Owner: "tester", Sandbox: sandbox.Spec{Profile: sandbox.Dev, Guest: self, Limits: sandbox.Limits{Memory: memory}},
			Program: bridge.Program{Language: "shell", Source: "test ! -e mark && touch mark", Limits: bridge.Limits{Wall: 20_000}},
		}, quiet{})
		if err != nil || result.Outcome.Failure != nil || result.Outcome.Exit != 0 {
			t.Fatalf("got %+v, %v: a folder that was used before?", result, err)
		}
	}
	settled := func(size int) {
		t.Helper()
		for e.Stats().Size != size {
			select {
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			case <-time.After(time.Millisecond):
			}
		}
	}
	for range 3 {
		run(1 << 30)
		settled(1)
	}
	run(2 << 30) // another limit, another kind
	settled(2)
	if diff := cmp.Diff(hosted.Stats{Size: 2, Hits: 2, Misses: 2}, e.Stats()); diff != "" {
		t.Errorf("the counts differ (-want +got):\n%s", diff)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d sandboxes are left after Close", n)
	}
}

type quiet struct{ bridge.Host }

func (quiet) Print(string, string) {}

// slow is a driver whose start takes for ever.
type slow struct{ sandbox.Driver }

func (slow) Name() string { return "slow" }

func (slow) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Available}
}

func (slow) Start(ctx context.Context, _ sandbox.Spec) (sandbox.Sandbox, error) {
	<-ctx.Done()
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the daemon did not answer")
}

func TestAProgramWhoseTimeIsOverBeforeItsStartHasTimedOut(t *testing.T) {
	t.Parallel()
	j := engine.Job{Sandbox: sandbox.Spec{Guest: os.Args[0], BestEffort: true}}
	j.Program.Limits.Wall = 50
	if _, err := hosted.New(slow{}).Run(t.Context(), j, nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Errorf("it ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hosted.New(slow{}).Run(ctx, j, nil); toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("it ended with %v", err)
	}
}

// late is a driver that is not there at first.
type late struct {
	sandbox.Driver
	answers []sandbox.State
}

func (d *late) Probe(context.Context) sandbox.Probe {
	p := sandbox.Probe{State: d.answers[0]}
	d.answers = d.answers[1:]
	return p
}

func TestADriverThatDidNotAnswerIsAskedAgainAfterAWhile(t *testing.T) {
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

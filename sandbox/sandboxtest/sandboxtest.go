// Package sandboxtest is the test suite for sandbox drivers: programs run and call
// tools, limits and isolation are enforced, and nothing is left behind.
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures the suite.
type Options struct {
	// New returns the driver.
	New func(t *testing.T) sandbox.Driver
	// Guest is the path of the static guest binary; with GuestArgs it runs as the guest.
	Guest     string
	GuestArgs []string
	// GuestInside is the path of that binary inside a sandbox; "" means [GuestInside].
	GuestInside string
	// Image is the image of every run.
	Image string
	// Languages are the languages that the sandbox can run, of python, javascript and
	// shell.
	Languages []string
	// Leftovers lists what the driver has left on this machine: processes, containers,
	// mounts, cgroups, files. It is called after all runs.
	Leftovers func(t *testing.T) []string
	// Lacks are the limits that the driver does not enforce by design. It must report
	// all others as enforced.
	Lacks []sandbox.Limit
	// Without names subtests that the driver cannot pass by design. Its Probe must
	// report the reason in Lacks. The host driver has such subtests.
	Without []string
}

// essentials are the programs of the engines' test suite that depend on the driver: its
// stream, its end, and its isolation. The guest behaves the same under all drivers.
var essentials = []string{
	"a value comes back", "a failed tool, not caught", "calls run in parallel", "a thousand calls", "a large value",
	"artifacts go out and come in whole", "output, progress and logs", "values round trip",
	"a cancelled program is stopped", "runs see nothing of each other",
}

// Run runs the suite. With -short it runs only the essentials of the programs in Python
// and JavaScript.
func Run(t *testing.T, o Options) {
	s := &suite{t: t, o: o, engine: hosted.New(o.New(t))}
	if p := s.engine.Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%s is not available: %s (%s)", s.engine.Name(), p.Reason, p.Fix)
	}
	t.Log(Row(s.engine.Name(), s.engine.Probe(t.Context())))
	s.test("the probe reports the limits", s.claims)
	var only []string
	if testing.Short() {
		only = essentials
	}
	for _, language := range o.Languages {
		if language == "python" || language == "javascript" {
			enginetest.Run(t, enginetest.Options{
				New: func(t *testing.T) engine.Engine { return hosted.New(o.New(t)) }, Languages: []string{language},
				Sandbox: s.spec(sandbox.Standard), Only: only,
			})
		}
	}
	s.test("a WebAssembly module", s.module)
	s.test("shell", s.shell)
	s.test("a static binary", s.binary)
	s.test("exit codes and streams", s.exit)
	s.test("a process that double-forks ends with its run", s.fork)
	s.test("ended orphans do not count as processes", s.orphans)
	s.test("a daemon does not hold up its program", s.daemon)
	s.test("memory", s.memory)
	s.test("pids", s.pids)
	s.test("disk", s.disk)
	s.test("cpu", s.cpu)
	s.test("network", s.network)
	s.test("egress", s.egress)
	s.test("root", s.root)
	s.test("environment", s.environment)
	s.test("files of another run", s.separation)
	s.test("negative limit", s.negative)
	if o.Leftovers != nil {
		s.test("nothing is left", func(t *testing.T) {
			if left := o.Leftovers(t); len(left) > 0 {
				t.Errorf("the driver left behind:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}

// module tests that a WebAssembly module can call tools.
func (s *suite) module(t *testing.T) {
	module, err := builtModule()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Run(t, enginetest.Options{
		New: func(t *testing.T) engine.Engine { return hosted.New(s.o.New(t)) }, Languages: []string{"wasm"}, Module: module,
		Sandbox: s.spec(sandbox.Standard), Only: []string{"values round trip"}, // each run compiles the module again
	})
}

var builtModule = sync.OnceValues(enginetest.BuildModule)

type suite struct {
	t      *testing.T
	o      Options
	engine *hosted.Engine
}

func (s *suite) test(name string, f func(*testing.T)) {
	for _, without := range s.o.Without {
		if without == name {
			return
		}
	}
	s.t.Run(name, f)
}

func (s *suite) spec(p sandbox.Profile) sandbox.Spec {
	return sandbox.Spec{Profile: p, Guest: s.o.Guest, Args: s.o.GuestArgs, Image: s.o.Image, BestEffort: s.lacksNetwork()}
}

// lacksNetwork reports whether the driver's probe says that it cannot isolate the
// network. Its runs then accept best effort.
func (s *suite) lacksNetwork() bool {
	_, lacks := s.engine.Probe(context.Background()).Lacks[sandbox.LimitNetwork]
	return lacks
}

// outcome is the result of a run, with its output.
type outcome struct {
	*engine.Result
	stdout, stderr string
	err            error
}

// shellRun runs a shell script under limits.
func (s *suite) shellRun(t *testing.T, script string, limits sandbox.Limits) outcome {
	t.Helper()
	return s.run(t, engine.Job{
		Program: bridge.Program{Language: "shell", Name: "main.sh", Source: script},
		Sandbox: s.limited(limits),
	})
}

func (s *suite) limited(l sandbox.Limits) sandbox.Spec {
	spec := s.spec(sandbox.Standard)
	spec.Limits = l
	return spec
}

func (s *suite) run(t *testing.T, j engine.Job) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	j.Run, j.Owner = fmt.Sprintf("run-%d", time.Now().UnixNano()), "tester"
	j.Program.Limits.Memory = j.Sandbox.Limits.Memory
	if j.Sandbox.Limits.Wall > 0 {
		j.Program.Limits.Wall = j.Sandbox.Limits.Wall.Milliseconds()
	}
	if j.Sandbox.Limits.CPU > 0 {
		j.Program.Limits.CPU = j.Sandbox.Limits.CPU.Milliseconds()
	}
	h := &handler{}
	result, err := s.engine.Run(ctx, j, h)
	return outcome{result, h.stdout.String(), h.stderr.String(), err}
}

func (o outcome) failed() bool {
	return o.err != nil || o.Outcome.Failure != nil || o.Outcome.Exit != 0
}

// limit returns the limit that ended a run, according to its typed error or failure, or
// "" if no limit ended it.
func (o outcome) limit() string {
	var e *toolroom.Error
	if errors.As(o.err, &e) && e.Code == toolroom.CodeResourceLimit {
		return e.Limit
	}
	if o.err == nil && o.Outcome.Failure != nil && o.Outcome.Failure.Kind == bridge.FailLimit {
		return o.Outcome.Failure.Limit
	}
	return ""
}

func (o outcome) String() string {
	text := fmt.Sprintf("error %v, stdout %q, stderr %q", o.err, o.stdout, o.stderr)
	if o.Result != nil {
		text += fmt.Sprintf(", exit %d, failure %+v", o.Outcome.Exit, o.Outcome.Failure)
	}
	return text
}

func (s *suite) shell(t *testing.T) {
	out := s.shellRun(t, `tool math:add a:=40 b:=2 && tool echo:value 'value=two words'; echo "in $0" >&2`, sandbox.Limits{})
	if out.failed() || out.stdout != "42\ntwo words\n" || !strings.HasPrefix(out.stderr, "in ") {
		t.Errorf("the script ended with %v", out)
	}
}

func (s *suite) binary(t *testing.T) {
	out := s.run(t, engine.Job{Program: bridge.Program{Language: "command", Command: []string{"/bin/sh", "-c", "cat; exit 3"}, Stdin: []byte("from stdin")}, Sandbox: s.spec(sandbox.Standard)})
	if out.err != nil || out.Outcome.Exit != 3 || out.stdout != "from stdin" {
		t.Errorf("the command ended with %v", out)
	}
	out = s.run(t, engine.Job{Program: bridge.Program{Language: "command", Command: []string{"/no/such/program"}}, Sandbox: s.spec(sandbox.Standard)})
	if out.err != nil || out.Outcome.Failure == nil || out.Outcome.Failure.Kind != bridge.FailUnsupported {
		t.Errorf("a program that does not exist ended with %v", out)
	}
}

func (s *suite) exit(t *testing.T) {
	out := s.shellRun(t, `echo out; echo err >&2; printf 'grüße'; exit 7`, sandbox.Limits{})
	if out.err != nil || out.Outcome.Exit != 7 || out.stdout != "out\ngrüße" || out.stderr != "err\n" {
		t.Errorf("the script ended with %v", out)
	}
	if out := s.shellRun(t, `kill -9 $$`, sandbox.Limits{}); !out.failed() {
		t.Errorf("a script that killed itself ended with %v", out)
	}
}

func (s *suite) fork(t *testing.T) {
	out := s.shellRun(t, `(setsid sleep 300 >/dev/null 2>&1 &) ; (sleep 300 >/dev/null 2>&1 &); echo done`, sandbox.Limits{})
	if out.failed() || out.stdout != "done\n" {
		t.Errorf("the script ended with %v", out)
	}
}

// daemon tests a program that leaves behind a process in a new session, which keeps the
// program's output open.
func (s *suite) daemon(t *testing.T) {
	began := time.Now()
	out := s.shellRun(t, `command -v setsid >/dev/null || { echo hi; exit; }; (setsid sleep 60 &); sleep 0.2; echo hi`, sandbox.Limits{Wall: 30 * time.Second})
	if took := time.Since(began); out.failed() || out.stdout != "hi\n" || took > 20*time.Second {
		t.Errorf("after %s: %v", took, out)
	}
}

// orphans tests a program that makes more orphans, one after the other, than there may be
// processes: an orphan that has ended must not count against the limit. The program waits until
// each has been reaped, which takes long on a busy machine.
func (s *suite) orphans(t *testing.T) {
	if _, held := s.engine.Probe(t.Context()).Holds[sandbox.LimitPIDs]; !held {
		t.Skip("the driver does not limit processes")
	}
	out := s.shellRun(t, `i=0; while [ $i -lt 100 ]; do (sh -c 'echo $$ > ended' &) || exit 1; while [ ! -s ended ] || [ -e "/proc/$(cat ended)" ]; do sleep 0.01; done; rm ended; i=$((i+1)); done; echo done`, sandbox.Limits{PIDs: 64})
	if out.failed() || out.stdout != "done\n" {
		t.Errorf("the script ended with %v", out)
	}
}

// testLimit tests a limit with a script that exceeds it, and with one that does not.
func (s *suite) testLimit(t *testing.T, limit sandbox.Limit, l sandbox.Limits, over, within string) {
	t.Helper()
	if _, held := s.engine.Probe(t.Context()).Holds[limit]; !held {
		out := s.shellRun(t, within, l)
		if toolroom.CodeOf(out.err) != toolroom.CodeLimitNotEnforceable && !s.lacksNetwork() {
			t.Errorf("the driver does not enforce %s, but ran: %v", limit, out)
		}
		return
	}
	if out := s.shellRun(t, within, l); out.failed() {
		t.Errorf("a program within the limit of %s ended with %v", limit, out)
	} else if out.Held[limit] == "" {
		t.Errorf("the result does not say how %s was enforced: %v", limit, out.Held)
	}
	if out := s.shellRun(t, over, l); !out.failed() {
		t.Errorf("a program over the limit of %s ended with %v", limit, out)
	}
}

func (s *suite) memory(t *testing.T) {
	// dd reads its whole block into memory.
	s.testLimit(t, sandbox.LimitMemory, sandbox.Limits{Memory: 128 << 20},
		`dd if=/dev/zero of=/dev/null bs=400M count=1 2>/dev/null`,
		`dd if=/dev/zero of=/dev/null bs=4M count=1 2>/dev/null`)
}

func (s *suite) pids(t *testing.T) {
	s.testLimit(t, sandbox.LimitPIDs, sandbox.Limits{PIDs: 64},
		`i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done 2>/dev/null; [ "$(ls -d /proc/[0-9]* | wc -l)" -gt 150 ]`,
		`sleep 0 & sleep 0 & wait`)
}

func (s *suite) disk(t *testing.T) {
	s.testLimit(t, sandbox.LimitDisk, sandbox.Limits{Disk: 8 << 20},
		`dd if=/dev/zero of=./big bs=1M count=32 2>/dev/null`,
		`dd if=/dev/zero of=./small bs=1M count=2 2>/dev/null`)
}

func (s *suite) cpu(t *testing.T) {
	if _, held := s.engine.Probe(t.Context()).Holds[sandbox.LimitCPU]; !held {
		return
	}
	started := time.Now()
	out := s.shellRun(t, `while :; do :; done`, sandbox.Limits{CPU: time.Second, Wall: 60 * time.Second})
	if limit := out.limit(); limit != "cpu" || time.Since(started) > 50*time.Second {
		t.Errorf("an endless loop with one second of CPU time took %s and ended at the limit %q with %v", time.Since(started), limit, out)
	}
}

// network tries to reach a listener on this machine, a name, and the metadata address of
// clouds.
func (s *suite) network(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reached := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			reached <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	var targets []string
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
			targets = append(targets, fmt.Sprintf("(%q, %s)", ip.IP, port))
		}
	}
	targets = append(targets, `("169.254.169.254", 80)`, `("8.8.8.8", 53)`)
	source := fmt.Sprintf(`
import socket
reached = []
for target in [%s]:
    try:
        socket.create_connection(target, timeout=1).close()
        reached.append(target[0])
    except OSError:
        pass
try:
    socket.getaddrinfo("example.com", 80)
    reached.append("dns")
except OSError:
    pass
reached
`, strings.Join(targets, ", "))
	out := s.run(t, engine.Job{Program: bridge.Program{Language: "python", Name: "main.py", Source: source}, Sandbox: s.spec(sandbox.Standard)})
	if out.failed() {
		t.Fatalf("the program ended with %v", out)
	}
	if list, _ := out.Outcome.Value.([]bridge.Value); len(list) > 0 || len(reached) > 0 {
		t.Errorf("the network is open: %v reached", list)
	}
}

func (s *suite) root(t *testing.T) {
	out := s.shellRun(t, `id -u; touch /probe 2>/dev/null && echo "wrote /"; touch /usr/probe 2>/dev/null && echo "wrote /usr"; touch ./mine && echo work; grep -i '^CapEff' /proc/self/status; true`, sandbox.Limits{})
	if out.failed() {
		t.Fatalf("the script ended with %v", out)
	}
	fields := strings.Fields(out.stdout)
	if len(fields) < 2 || fields[0] == "0" || strings.Contains(out.stdout, "wrote") || !strings.Contains(out.stdout, "work") {
		t.Errorf("user and file system are %q", out.stdout)
	}
	if strings.Contains(out.stdout, "CapEff") && !strings.Contains(out.stdout, "CapEff:\t0000000000000000") {
		t.Errorf("the program has capabilities: %q", out.stdout)
	}
}

func (s *suite) environment(t *testing.T) {
	const canary = "TOOLROOM_SUITE_CANARY"
	if os.Getenv(canary) == "" {
		t.Setenv(canary, "the server's secret")
	}
	out := s.shellRun(t, `env; cat /proc/*/environ 2>/dev/null | tr '\0' '\n'; cat /etc/shadow 2>/dev/null; true`, sandbox.Limits{})
	if out.err != nil || strings.Contains(out.stdout, "server's secret") || strings.Contains(out.stdout, "root:") {
		t.Errorf("the program sees the host machine: %v", out)
	}
}

func (s *suite) separation(t *testing.T) {
	if out := s.shellRun(t, `for d in . /tmp /var/tmp /dev/shm; do echo mine > $d/left 2>/dev/null; done; true`, sandbox.Limits{}); out.failed() {
		t.Fatalf("the first run ended with %v", out)
	}
	if out := s.shellRun(t, `cat ./left /tmp/left /var/tmp/left /dev/shm/left 2>/dev/null; true`, sandbox.Limits{}); out.failed() || out.stdout != "" {
		t.Errorf("the second run sees files of the first: %v", out)
	}
}

func (s *suite) negative(t *testing.T) {
	if out := s.shellRun(t, `true`, sandbox.Limits{Memory: -1}); toolroom.CodeOf(out.err) != toolroom.CodeInvalidArguments {
		t.Errorf("a negative limit ended with %v", out)
	}
}

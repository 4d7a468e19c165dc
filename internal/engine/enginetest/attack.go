package enginetest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// secret is in a file of the machine and in the environment of the server.
const secret = "SECRET-OF-THE-SERVER"

// Attack tries forbidden operations from inside: files, sockets, exec, fork, ptrace,
// signals, procfs, the environment, other runs' memory and variables, tools outside
// the policy, and tokens of ended runs. Each attempt must fail. Attack sets a
// variable of this process's environment.
func Attack(t *testing.T, o Options) {
	if err := os.Setenv("ENGINETEST_SECRET", secret); err != nil {
		t.Fatal(err)
	}
	s := newSuite(t, o)
	place := newTarget(t)
	for _, language := range s.languages() {
		t.Run(language, func(t *testing.T) {
			for _, a := range attacks {
				body, ok := a.bodies[language]
				if !ok || s.isSkipped(a.key) {
					continue
				}
				t.Run(a.key, func(t *testing.T) { s.attack(t, language, place.fill(body)) })
			}
			t.Run("the server's sockets were not reached", func(t *testing.T) {
				if n := place.reached.Load(); n > 0 {
					t.Errorf("%d connections were made", n)
				}
			})
			t.Run("the server authorizes tools, whatever tools a program knows", func(t *testing.T) { s.toolsOutsidePolicy(t, language) })
			t.Run("what a program starts after its end is not heard", func(t *testing.T) { s.callAfterEnd(t, language) })
			t.Run("owners do not meet", func(t *testing.T) { s.stateOfOwners(t, language) })
			t.Run("a run that is under way is not reached by another of its owner", func(t *testing.T) { s.neighbours(t, language) })
			t.Run("each run has random numbers of its own", func(t *testing.T) { s.randomNumbers(t, language) })
			if o.Stream > 0 {
				t.Run("a token of a run that is over is of no use", func(t *testing.T) { s.reuseToken(t, language) })
				t.Run("a call after the end is not heard", func(t *testing.T) { s.afterDone(t, language) })
			}
		})
	}
	t.Run("the isolation is reported", func(t *testing.T) {
		if p := s.engine.Probe(t.Context()); runtime.GOOS == "linux" && !strings.Contains(p.Isolation, "seccomp") && p.Isolation != "wasm" {
			t.Errorf("the isolation is %q", p.Isolation)
		}
	})
}

// target holds what attacks try to reach, in this process and on this machine.
type target struct {
	file    string
	port    int
	unix    string
	reached atomic.Int32
}

func newTarget(t *testing.T) *target {
	t.Helper()
	p := &target{file: filepath.Join(t.TempDir(), "secret"), unix: fmt.Sprintf("enginetest-%d", os.Getpid())}
	if err := os.WriteFile(p.file, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.port = tcp.Addr().(*net.TCPAddr).Port
	go p.count(tcp)
	t.Cleanup(func() { _ = tcp.Close() })
	if runtime.GOOS == "linux" {
		unix, err := net.Listen("unix", "@"+p.unix+t.Name())
		if err != nil {
			t.Fatal(err)
		}
		p.unix += t.Name()
		go p.count(unix)
		t.Cleanup(func() { _ = unix.Close() })
	}
	return p
}

func (p *target) count(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.reached.Add(1)
		_ = conn.Close()
	}
}

func (p *target) fill(body string) string {
	return strings.NewReplacer("FILE", fmt.Sprintf("%q", p.file), "FOLDER", fmt.Sprintf("%q", filepath.Dir(p.file)), "PORT", fmt.Sprint(p.port),
		"ABSTRACT", fmt.Sprintf("%q", p.unix), "SERVER", fmt.Sprint(os.Getpid()), "STOLEN", fmt.Sprintf("%q", secret)).Replace(body)
}

// attack runs the body of a function. The system must refuse it, or the language must
// lack it. A body that returns "refused" found nothing.
func (s *suite) attack(t *testing.T, language, body string) {
	t.Helper()
	indented := "    " + strings.ReplaceAll(body, "\n", "\n    ")
	source := map[string]string{
		"python":     "def attack():\n" + indented + "\n    return 'done'\ntry:\n    got = attack()\nexcept OSError as e:\n    got = 'refused'\ngot",
		"javascript": "const attack = async () => {" + body + "\nreturn 'done' };\ntry { return await attack() } catch (e) { if (e && (e.errno || e.code || e.cause)) return 'refused'; throw e }",
	}[language]
	result, err := s.engine.Run(t.Context(), s.job(language, source), newCallHandler())
	if err != nil {
		// A program that kills itself or its interpreter has harmed no other.
		if code := toolroom.CodeOf(err); code != toolroom.CodeExecutionFailed {
			t.Errorf("it ended with %v", err)
		}
		s.checkStillWorks(t, language)
		return
	}
	f := result.Outcome.Failure
	switch {
	case f == nil && result.Outcome.Value == bridge.Value("refused"):
	case f != nil && s.options.Bare && isMissingFeature(f):
	case f != nil && f.Type == "ValueError" && strings.Contains(f.Message, "limit"): // of a limit that cannot be raised
	default:
		t.Errorf("it was not refused: value %v, failure %+v", result.Outcome.Value, f)
	}
}

// isMissingFeature reports whether a failure means that the language lacks the feature.
func isMissingFeature(f *bridge.Failure) bool {
	switch f.Kind {
	case bridge.FailUnsupported, bridge.FailCheck, bridge.FailSyntax:
		return true
	}
	return slices.Contains([]string{"ReferenceError", "TypeError", "NameError", "AttributeError", "ModuleNotFoundError", "ImportError", "NotImplementedError", "RuntimeError"}, f.Type)
}

func (s *suite) toolsOutsidePolicy(t *testing.T, language string) {
	source := map[string]string{
		"python": `seen = []
for call in [lambda: call_tool("secret:read"), lambda: call_tool("Secret.Read"), lambda: tools["secret"]["read"](), lambda: mcp.secret.read(), lambda: cli["secret"].read(), lambda: cli("secret").read(), lambda: run("secret:read"), lambda: getattr(getattr(tools, "secret"), "read")()]:
    try:
        call()
        seen.append("done")
    except ToolError as e:
        seen.append(e.code)
    except AttributeError as e:
        seen.append("tool_not_found")
seen`,
		"javascript": `const seen = [];
for (const call of [() => call_tool("secret:read"), () => call_tool("Secret.Read"), () => tools["secret"]["read"](), () => mcp.secret.read(), () => cli["secret"].read(), () => cli("secret").read(), () => run("secret:read"), () => Reflect.get(tools, "secret").read()]) {
	try { await call(); seen.push("done") } catch (e) { seen.push(e.code ?? "tool_not_found") }
}
return seen`,
	}[language]
	r := newCallHandler()
	result, err := s.engine.Run(t.Context(), s.job(language, source), r)
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%s, %v", describe(result), err)
	}
	want := slices.Repeat([]bridge.Value{"tool_not_found"}, 8)
	if diff := cmp.Diff(want, result.Outcome.Value); diff != "" {
		t.Errorf("a missing tool returned something (-want +got):\n%s", diff)
	}
	if len(r.calls) == 0 {
		t.Error("the host was not asked")
	}
}

// callAfterEnd runs a program that calls a tool after its end. The call must not arrive.
func (s *suite) callAfterEnd(t *testing.T, language string) {
	source := map[string]string{
		"python": `import asyncio
async def late():
    await asyncio.sleep(0.001)
    call_tool("late:call")
task = asyncio.gather(late())
"ended"`,
		"javascript": `for (let i = 0; i < 5; i++) Promise.resolve().then(() => {}).then(() => {}).then(() => {}).then(() => call_tool("late:call"));
setTimeout(() => call_tool("later:call"), 1);
return "ended"`,
	}[language]
	for range s.rounds(10) {
		r := newCallHandler()
		// The engine decides how it ends: it may refuse a call that is not awaited.
		_, _ = s.engine.Run(t.Context(), s.job(language, source), r)
		s.checkStillWorks(t, language)
		r.mu.Lock()
		if len(r.calls) > 0 {
			t.Errorf("the handler received %v", r.calls)
		}
		r.mu.Unlock()
	}
}

func (s *suite) stateOfOwners(t *testing.T, language string) {
	source := map[string]string{
		"python":     "try:\n    left\n    seen = True\nexcept NameError:\n    seen = False\nleft = 1\nseen",
		"javascript": "const before = typeof left; globalThis.left = 1; return before !== 'undefined'",
	}[language]
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range s.rounds(10) {
				j := s.job(language, source)
				j.Owner = owner
				result, err := s.engine.Run(t.Context(), j, newCallHandler())
				if err != nil || result.Outcome.Value != bridge.Value(false) {
					t.Errorf("%s, %v", describe(result), err)
				}
			}
		})
	}
	wg.Wait()
}

func (s *suite) randomNumbers(t *testing.T, language string) {
	source := map[string]string{
		"python":     "import random, os\nf'{random.random()} {os.urandom(8)}'",
		"javascript": "return Math.random() + ' ' + crypto.randomUUID()",
	}[language]
	seen := map[bridge.Value]bool{}
	for range s.rounds(20) {
		result, err := s.engine.Run(t.Context(), s.job(language, source), newCallHandler())
		if err != nil || result.Outcome.Failure != nil {
			t.Fatalf("%s, %v", describe(result), err)
		}
		if seen[result.Outcome.Value] {
			t.Errorf("%v again", result.Outcome.Value)
		}
		seen[result.Outcome.Value] = true
	}
}

package js_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// watched is a host that knows what it was asked, and denies it.
type watched struct {
	silent
	mu    sync.Mutex
	asked []string
}

func (w *watched) Call(_ context.Context, tool string, _ bridge.Map) (bridge.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, tool)
	return nil, toolroom.Errorf(toolroom.CodeDenied, "%s is not for you", tool)
}

func TestAnAttackFromInsideFindsNothing(t *testing.T) {
	t.Parallel()
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, c := range []struct {
		name, source string
		want         bridge.Value
	}{
		{
			"no way to files, processes, sockets or other code",
			`return ["require", "process", "module", "std", "os", "fetch", "Deno", "Bun", "WebAssembly", "XMLHttpRequest", "WebSocket", "Worker", "importScripts", "__doors", "__filename", "load", "read", "scriptArgs"].filter((n) => n in globalThis)`,
			[]bridge.Value{},
		},
		{"no environment, no arguments", `return typeof process + typeof arguments + typeof scriptArgs`, "undefinedundefinedundefined"},
		{
			"the doors are not reached through functions",
			`const seen = []; for (const f of [console.log, call_tool, tools.number.same, setTimeout, artifacts.put]) { try { seen.push(f.caller ?? f.arguments) } catch (e) { seen.push(undefined) } } return seen.every((x) => x === undefined || x === null)`, true,
		},
		{
			"the doors are not reached through traps on prototypes",
			`const seen = new Set(); for (const name of ["place", "resolve", "body", "send", "deliver", "status", "token"]) { Object.defineProperty(Object.prototype, name, {set(v) { seen.add(typeof v) }, get() { return undefined }, configurable: true}) } const before = seen.has("function"); for (const name of ["place", "resolve", "body", "send", "deliver", "status", "token"]) delete Object.prototype[name]; return before`, false,
		},
		{
			"no token in any error", `try { await call_tool("secret:read") } catch (e) { return JSON.stringify(e) + e.stack.includes("token") }`,
			`{"code":"denied","phase":"","tool":"","retryable":false,"hint":""}false`,
		},
		{"the constructor of functions makes no more than functions", `return new Function("return typeof __doors + typeof process")()`, "undefinedundefined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := e.Run(t.Context(), job(c.source, bridge.Limits{}), &watched{})
			if err != nil || result.Outcome.Failure != nil {
				t.Fatalf("%+v, %v", result, err)
			}
			if diff := cmp.Diff(c.want, result.Outcome.Value); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestToolsAreAskedOfTheHostWhateverTheProgramWasToldOf(t *testing.T) {
	t.Parallel()
	e := inProcess(t)
	t.Cleanup(func() { _ = e.Close() })
	host := &watched{}
	source := `const seen = [];
for (const call of [() => call_tool("secret:read"), () => tools["secret"]["read"](), () => mcp.secret.read(), () => cli["secret"].read(), () => run("secret:read")]) {
	try { await call() } catch (e) { seen.push(e.code) }
}
return seen`
	result, err := e.Run(t.Context(), job(source, bridge.Limits{}), host)
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if diff := cmp.Diff([]bridge.Value{"denied", "denied", "denied", "denied", "denied"}, result.Outcome.Value); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(host.asked, " "); got != strings.TrimSpace(strings.Repeat("secret:read ", 5)) {
		t.Errorf("the host was asked for %s", got)
	}
}

func TestAProgramThatGoesOnAfterItsEndIsNotHeard(t *testing.T) {
	t.Parallel()
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	for range 20 {
		host := &watched{}
		source := `for (let i = 0; i < 5; i++) Promise.resolve().then(() => {}).then(() => {}).then(() => {}).then(() => call_tool("late:call"));
setTimeout(() => call_tool("later:call"), 1);
return "ended"`
		result, err := e.Run(t.Context(), job(source, bridge.Limits{}), host)
		if err != nil || result.Outcome.Value != bridge.Value("ended") {
			t.Fatalf("%+v, %v", result, err)
		}
		if len(host.asked) > 0 {
			t.Errorf("the host was asked for %v", host.asked)
		}
	}
}

func TestEachRunHasItsOwnRandomNumbers(t *testing.T) {
	t.Parallel()
	e := inProcess(t)
	t.Cleanup(func() { _ = e.Close() })
	seen := map[bridge.Value]bool{}
	for range 50 {
		result, err := e.Run(t.Context(), job(`return Math.random() + " " + crypto.randomUUID()`, bridge.Limits{}), silent{})
		if err != nil || seen[result.Outcome.Value] {
			t.Fatalf("%+v again, %v", result, err)
		}
		seen[result.Outcome.Value] = true
	}
}

func TestAWorkerServesOneOwnerOnly(t *testing.T) {
	t.Parallel()
	e := inProcess(t)
	t.Cleanup(func() { _ = e.Close() })
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range 20 {
				j := job(`const before = typeof left; globalThis.left = 1; return before`, bridge.Limits{})
				j.Owner = owner
				result, err := e.Run(t.Context(), j, silent{})
				if err != nil || result.Outcome.Value != bridge.Value("undefined") {
					t.Errorf("%+v, %v", result, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAWorkerIsLockedAsFarAsTheMachineAllows(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no isolation but on Linux")
	}
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	p := e.Probe(t.Context())
	if !strings.HasPrefix(p.Isolation, "wasm+") || !strings.Contains(p.Isolation, "seccomp") {
		t.Errorf("the isolation is %q", p.Isolation)
	}
}

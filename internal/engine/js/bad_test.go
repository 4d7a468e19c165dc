package js_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/js"
)

func job(source string, limits bridge.Limits) engine.Job {
	return engine.Job{Owner: "tester", Program: bridge.Program{Language: "javascript", Name: "main.js", Source: source, Tools: numbers, Limits: limits}}
}

// Each of these programs must end in its way within its limits, and the worker
// or its successor must go on.
var bad = []struct {
	name, source string
	code         toolroom.Code      // of the error of the run
	failure      bridge.FailureKind // or of the program
	says         string
}{
	{"an endless loop", `for (;;) {}`, toolroom.CodeTimeout, "", ""},
	{"an endless loop that catches everything", `for (;;) { try { for (;;) {} } catch (e) {} finally { for (;;) {} } }`, toolroom.CodeTimeout, "", ""},
	{"endless promises", `const again = () => Promise.resolve().then(again); await again(); await new Promise(() => {})`, toolroom.CodeTimeout, "", ""},
	{"an endless microtask that is not awaited", `const again = async () => { for (;;) await null }; again(); await new Promise(r => setTimeout(r, 60000))`, toolroom.CodeTimeout, "", ""},
	{"an endless generator", `function* g() { for (;;) yield 1 }; [...g()]`, toolroom.CodeResourceLimit, "", "memory"},
	{"endless sleep", `await new Promise(r => setTimeout(r, 1e9))`, toolroom.CodeTimeout, "", ""},
	{"a promise that nothing settles", `await new Promise(() => {})`, "", bridge.FailProgram, "nothing will settle"},
	{"deep recursion", `const f = () => f() + 1; f()`, "", bridge.FailProgram, "call stack"},
	{"deep recursion through natives", `const f = () => [1].map(f); f()`, "", bridge.FailProgram, "call stack"},
	{"a deep regular expression", `new RegExp("(".repeat(1e5) + ")".repeat(1e5))`, "", bridge.FailProgram, ""},
	{"a memory bomb of arrays", `const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))`, toolroom.CodeResourceLimit, "", "memory"},
	{"a memory bomb of strings", `let s = "x"; const a = []; for (;;) { a.push(s += s + a.length); if (s.length > 1e7) s = "y" }`, toolroom.CodeResourceLimit, "", "memory"},
	{"a memory bomb of objects", `const a = []; for (;;) a.push({a: {b: [a.length]}})`, toolroom.CodeResourceLimit, "", "memory"},
	{"one huge array", `new Array(4e9).fill(0)`, toolroom.CodeResourceLimit, "", "memory"},
	{"a busy regular expression", `/(a+)+$/.test("a".repeat(60) + "b")`, toolroom.CodeTimeout, "", ""},
	{"a busy sort", `const a = Array.from({length: 3e5}, (_, i) => i); for (;;) a.sort(() => Math.random() - 0.5)`, toolroom.CodeTimeout, "", ""},
	{"giant integers", `let n = 3n; for (;;) n = n * n % (1n << 400000n) + 1n`, toolroom.CodeTimeout, "", ""},
	{"an integer too large to send", `1n << 600000n`, "", bridge.FailValue, "integer"},
	{"huge output", `for (;;) console.log("x".repeat(10000))`, toolroom.CodeResourceLimit, "", "printed"},
	{"a huge value", `return "x".repeat(20e6)`, "", bridge.FailValue, "artifact"},
	{"a cyclic value", `const a = {list: []}; a.list.push({a}); a`, "", bridge.FailValue, "list[0].a"},
	{"a value nested too deep", `let a = []; for (let i = 0; i < 200; i++) a = [a]; a`, "", bridge.FailValue, "nested"},
	{"a function in a value", `return {f() {}}`, "", bridge.FailValue, "value.f is a function"},
	{"a promise in a value", `return [Promise.resolve(1)]`, "", bridge.FailValue, "await"},
	{"a getter that throws", `return {get bad() { throw new Error("no") }}`, "", bridge.FailValue, "value.bad"},
	{"a toJSON that throws", `return {a: {toJSON() { throw new Error("no") }}}`, "", bridge.FailValue, "value.a"},
	{"a getter that never returns", `return {get bad() { for (;;); }}`, toolroom.CodeTimeout, "", ""},
	{"a Proxy that throws at every touch", `return new Proxy({}, new Proxy({}, {get() { throw new Error("no") }}))`, "", bridge.FailProgram, "no"},
	{"a Proxy that is a new Proxy all the way down", `const p = () => new Proxy({}, {ownKeys: () => ["x"], getOwnPropertyDescriptor: () => ({enumerable: true, configurable: true}), get: (_, k) => k === "x" ? p() : undefined}); return p()`, "", bridge.FailValue, "nested"},
	{"a Proxy as arguments", `await tools.number.same({n: new Proxy({}, {ownKeys() { throw new Error("no") }})})`, "", bridge.FailProgram, "cannot be sent"},
	{"an object as tool id", `await call_tool({toString() { for (;;); }}, {})`, "", bridge.FailProgram, "tool's id"},
	{"an error whose message cannot be read", `throw Object.defineProperty(new Error("x"), "message", {get() { throw 1 }})`, "", bridge.FailProgram, ""},
	{"an error whose stack is a trap", `throw Object.defineProperty(new Error("x"), "stack", {get() { for (;;); }})`, toolroom.CodeTimeout, "", ""},
	{"nothing but a thrown null", `throw null`, "", bridge.FailProgram, "null"},
	{"ten thousand calls at once", `await Promise.all(Array.from({length: 10000}, (_, n) => tools.number.same({n})))`, "", bridge.FailProgram, "tool calls"},
	{"a text that closes its function", `}); for (;;) {} (async () => {`, toolroom.CodeTimeout, "", ""},
	{"prototypes that lie", `Array.prototype[Symbol.iterator] = Object.prototype.toString = String.prototype.split = RegExp.prototype.exec = Promise.prototype.then = () => { throw new Error("lie") }; throw new Error("x")`, "", bridge.FailProgram, ""},
	{"imports", "import fs from 'fs'\nfs.readFileSync('/etc/passwd')", "", bridge.FailSyntax, "imports nothing"},
	{"dynamic imports", `await import("fs")`, "", bridge.FailProgram, ""},
}

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	heart := beat(t, e)
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			limits := bridge.Limits{Wall: 30_000, Memory: 48 << 20, Output: 1 << 20}
			if c.code == toolroom.CodeTimeout {
				limits.Wall = 500
			}
			result, err := e.Run(t.Context(), job(c.source, limits), silent{})
			text := fmt.Sprint(err)
			var kind bridge.FailureKind
			if err == nil && result.Outcome.Failure != nil {
				kind = result.Outcome.Failure.Kind
				text = result.Outcome.Failure.Error()
			}
			if err != nil && toolroom.CodeOf(err) != c.code {
				t.Errorf("the run ended with %v, want %s", err, c.code)
			}
			if err == nil && (c.code != "" || kind != c.failure && c.failure != "") {
				t.Errorf("the program ended with %q: %s, want %q%s", kind, text, c.failure, c.code)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q: %s", c.says, text)
			}
			result, err = e.Run(t.Context(), job("return 1 + 1", bridge.Limits{}), silent{})
			if err != nil || result.Outcome.Value != bridge.Value(int64(2)) {
				t.Errorf("the next program got %+v, %v", result, err)
			}
		})
	}
	heart()
}

// beat runs small programs of another owner all the time; what it returns
// checks that each came through.
func beat(t *testing.T, e *js.Engine) (check func()) {
	t.Helper()
	stop, beats := make(chan struct{}), 0
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		for failed == nil {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			j := job("return await tools.number.same({n: 7})", bridge.Limits{})
			j.Owner = "another"
			result, err := e.Run(t.Context(), j, silent{})
			if err != nil || result.Outcome.Value != bridge.Value(int64(7)) {
				failed = fmt.Errorf("%+v: %w", result, err)
			}
			beats++
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		if failed != nil || beats == 0 {
			t.Errorf("after %d programs of another owner one failed: %v", beats, failed)
		}
	}
}

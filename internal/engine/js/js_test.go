package js_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/js"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == quickjs.WorkerArg {
		os.Exit(quickjs.Main(context.Background(), os.Args[2:]))
	}
	os.Exit(withCache(m.Run))
}

// compiled is the folder of compiled code shared by all engines of the tests.
var compiled string

func withCache(run func() int) int {
	folder, err := os.MkdirTemp("", "toolroom-js")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	compiled = folder
	return run()
}

func inWorkers(t testing.TB) engine.Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return js.New(js.Options{Command: []string{self, quickjs.WorkerArg}, CacheDir: filepath.Join(compiled, "workers")})
}

var workers = enginetest.Options{
	New:  func(t *testing.T) engine.Engine { return inWorkers(t) },
	Bare: true, Memory: 48 << 20, Bad: bad,
}

func TestTheEngineFulfilsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, workers)
}

func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	enginetest.Leak(t, workers)
}

func TestAttacksFromInsideFail(t *testing.T) {
	t.Parallel()
	enginetest.Attack(t, workers)
}

func TestBadCodeEndsAsExpectedAndHarmsNoOtherRun(t *testing.T) {
	t.Parallel()
	enginetest.Bad(t, workers)
}

func TestPendingCallsAreSentBeforeTheProgramEnds(t *testing.T) {
	t.Parallel()
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, c := range []struct{ source, value string }{
		{`const box = {}; Promise.resolve().then(() => { box.value = "ran" }); return box`, `{"value":"ran"}`},
		{`return "at once"`, "at once"},
		{`return await new Promise((r) => setTimeout(() => r("after a while"), 1))`, "after a while"},
		{`return Promise.resolve("of another promise")`, "of another promise"},
	} {
		p := bridge.Program{Language: "javascript", Source: c.source}
		r, err := e.Run(t.Context(), engine.Job{Owner: "ann", Program: p}, nil)
		if err != nil || r.Outcome.Failure != nil {
			t.Fatal(c.source, err, r)
		}
		got, ok := r.Outcome.Value.(string)
		if !ok {
			text, err := bridge.ToJSON(r.Outcome.Value)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if got != c.value {
			t.Errorf("%s gives %s", c.source, got)
		}
	}
}

const (
	timeout = string(toolroom.CodeTimeout)
	limited = string(toolroom.CodeResourceLimit)
)

// bad are programs that this engine must end in addition to those of the suite.
var bad = []enginetest.BadProgram{
	{Key: "endless promises", Source: script(`const again = () => Promise.resolve().then(again); await again(); await new Promise(() => {})`), Ends: timeout},
	{Key: "an endless microtask that is not awaited", Source: script(`const again = async () => { for (;;) await null }; again(); await new Promise(r => setTimeout(r, 60000))`), Ends: timeout},
	{Key: "an endless generator", Source: script(`function* g() { for (;;) yield 1 }; [...g()]`), Ends: limited, Says: "memory"},
	{Key: "a promise that nothing settles", Source: script(`await new Promise(() => {})`), Ends: "program", Says: "nothing will settle"},
	{Key: "a deep regular expression", Source: script(`new RegExp("(".repeat(1e5) + ")".repeat(1e5))`), Ends: "program"},
	{Key: "a memory bomb of strings", Source: script(`let s = "x"; const a = []; for (;;) { a.push(s += s + a.length); if (s.length > 1e7) s = "y" }`), Ends: limited, Says: "memory"},
	{Key: "one huge array", Source: script(`new Array(4e9).fill(0)`), Ends: limited, Says: "memory"},
	{Key: "a busy sort", Source: script(`const a = Array.from({length: 3e5}, (_, i) => i); for (;;) a.sort(() => Math.random() - 0.5)`), Ends: timeout},
	{Key: "a value too large", Source: script(`return "x".repeat(20e6)`), Ends: "value", Says: "artifact"},
	{Key: "a cyclic value says where", Source: script(`const a = {list: []}; a.list.push({a}); a`), Ends: "value", Says: "list[0].a"},
	{Key: "a function in a value", Source: script(`return {f() {}}`), Ends: "value", Says: "value.f is a function"},
	{Key: "a promise in a value", Source: script(`return [Promise.resolve(1)]`), Ends: "value", Says: "await"},
	{Key: "a getter that throws says where", Source: script(`return {get bad() { throw new Error("no") }}`), Ends: "value", Says: "value.bad"},
	{Key: "a toJSON that throws", Source: script(`return {a: {toJSON() { throw new Error("no") }}}`), Ends: "value", Says: "value.a"},
	{Key: "a Proxy that throws at every touch", Source: script(`return new Proxy({}, new Proxy({}, {get() { throw new Error("no") }}))`), Ends: "program", Says: "no"},
	{Key: "a Proxy as arguments", Source: script(`await tools.math.add({a: 1, b: new Proxy({}, {ownKeys() { throw new Error("no") }})})`), Ends: "program", Says: "cannot be sent"},
	{Key: "an object as tool id", Source: script(`await call_tool({toString() { for (;;); }}, {})`), Ends: "program", Says: "tool's id"},
	{Key: "an error whose message cannot be read", Source: script(`throw Object.defineProperty(new Error("x"), "message", {get() { throw 1 }})`), Ends: "program"},
	{Key: "an error whose stack is a trap", Source: script(`throw Object.defineProperty(new Error("x"), "stack", {get() { for (;;); }})`), Ends: timeout},
	{Key: "nothing but a thrown null", Source: script(`throw null`), Ends: "program", Says: "null"},
	{Key: "a text that closes its function", Source: script(`}); for (;;) {} (async () => {`), Ends: timeout},
	{Key: "prototypes that lie", Source: script(`Array.prototype[Symbol.iterator] = Object.prototype.toString = String.prototype.split = RegExp.prototype.exec = Promise.prototype.then = () => { throw new Error("lie") }; throw new Error("x")`), Ends: "program"},
	{Key: "imports", Source: script("import fs from 'fs'\nfs.readFileSync('/etc/passwd')"), Ends: "syntax", Says: "imports nothing"},
	{Key: "dynamic imports", Source: script(`await import("fs")`), Ends: "program"},
}

func script(source string) map[string]string { return map[string]string{"javascript": source} }

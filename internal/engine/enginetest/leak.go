package enginetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

// Leak runs ten thousand programs of one owner, a few at a time. Each looks for what
// others have left, and then leaves what it can. With -short there are three hundred.
// Engines that make a sandbox for each program set a smaller number in [Options.Runs].
// Leak returns the number of programs per language.
func Leak(t *testing.T, o Options) int {
	s := newSuite(t, o)
	runs := s.rounds(10_000)
	if testing.Short() {
		runs = min(runs, 300)
	}
	for _, language := range s.languages() {
		t.Run(language, func(t *testing.T) {
			source := leakPrograms[language]
			if language == "python" && !o.Bare {
				source = cpythonLeak
			}
			const atOnce = 4
			var left atomic.Int64
			left.Store(int64(runs))
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(func() {
					for left.Add(-1) >= 0 && !t.Failed() {
						result, err := s.engine.Run(t.Context(), s.job(language, source), newCallHandler())
						if err != nil || result.Outcome.Failure != nil || result.Outcome.Value != bridge.Value("") {
							t.Errorf("run %d sees an earlier one: %s, %v", int64(runs)-left.Load(), describe(result), err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
	return runs
}

// rounds returns how often to repeat something: n times, or fewer if each run has its
// own sandbox.
func (s *suite) rounds(n int) int {
	if s.options.Runs > 0 {
		return min(n, s.options.Runs)
	}
	return n
}

// leakPrograms are programs that return the names of the traces of others that they have found,
// and then leave such traces themselves.
var leakPrograms = map[string]string{
	"wasm": "leak",
	"python": `
import json
seen = ""
for name in ["leak", "tools.leak", "json.leak"]:
    try:
        if eval(name) == 1:
            seen += name + " "
    except (NameError, AttributeError, RuntimeError):
        pass
leak = 1
try:
    tools.leak = 1
except Exception:
    pass
try:
    json.leak = 1
except Exception:
    pass
seen`,
	"javascript": `
let seen = "";
if (typeof leak !== "undefined") seen += "globalThis ";
for (const [name, o] of Object.entries({"Object.prototype": {}, Promise, tools, console})) if (o.leak === 1) seen += name + " ";
if ([1, 2].map((x) => x).length !== 2) seen += "Array.prototype.map";
if (JSON.stringify(1) !== "1") seen += "JSON";
globalThis.leak = 1; Object.prototype.leak = 1; Promise.leak = 1; console.leak = 1;
try { tools.leak = 1 } catch (e) {}
JSON.stringify = () => "leak";
Array.prototype.map = () => [];
setTimeout(() => { globalThis.leak = 1 }, 0);
return seen`,
}

const cpythonLeak = `
import builtins, os, sys, json
seen = ""
for name, there in {
    "builtins": hasattr(builtins, "leak"), "json": hasattr(json, "leak"), "sys": hasattr(sys, "leak"), "globals": "leak" in globals(),
    "environ": "LEAK" in os.environ, "file": os.path.exists("leak"), "folder": [f for f in os.listdir(".") if f != ".guest"],
    "modules": "leak" in sys.modules, "dumps": json.dumps(1) != "1", "umask": os.umask(0o77) == 0o70,
    "math": sys.modules.get("math", json) is None,
}.items():
    if there:
        seen += name + " "
builtins.leak = json.leak = sys.leak = leak = sys.modules["leak"] = 1
os.environ["LEAK"] = "1"
open("leak", "w").write("1")
json.dumps = sys.modules["math"] = None
os.umask(0o70)
seen`

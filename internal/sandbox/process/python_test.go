//go:build linux

package process_test

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
)

func TestPythonIsWhole(t *testing.T) {
	t.Parallel()
	d, spec := driver(t)
	e := hosted.New(d)
	t.Cleanup(func() { _ = e.Close() })
	for what, c := range map[string]struct {
		source string
		exit   int
	}{
		"it ends by exit, which is of the module site":   {"exit(3)", 3},
		"it finds the system's packages":                 {"import sys, site\nsys.exit(0 if set(site.getsitepackages()) & set(sys.path) else 1)", 0},
		"a text that is run finds them too":              {"names = {}\nexec(text, names)\nexit(0 if names['found'] else 1)", 0},
		"what it loads by a detour looks there too":      {"names = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)\nload = names['__imp' + 'ort__']\ntry:\n    load('no_such_module')\n    exit(2)\nexcept ModuleNotFoundError:\n    exit(0 if set(load('site').getsitepackages()) & set(load('sys').path) else 1)", 0},
		"its own traceback has the lines of the program": {"import traceback\ntry:\n    1 / 0\nexcept Exception:\n    text = traceback.format_exc()\nexit(0 if '1 / 0' in text else 1)", 0},
		"it can await":                           {"import asyncio\nexit(await asyncio.sleep(0, 4))", 4},
		"dates, enums and data classes leave it": {"import dataclasses, datetime, enum\nclass E(enum.IntEnum):\n    A = 5\n@dataclasses.dataclass\nclass D:\n    e: E\nprint(datetime.date(2026, 1, 2))\n[D(E.A), datetime.date(2026, 1, 2)]", 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inputs := bridge.Map{{Key: "text", Value: "import sys, site\nfound = set(site.getsitepackages()) & set(sys.path)"}}
			result, err := e.Run(t.Context(), engine.Job{Run: "run", Owner: "tester", Sandbox: spec, Program: bridge.Program{
				Language: "python", Name: "main.py", Source: c.source, Inputs: inputs,
			}}, quietHandler{})
			if err != nil || result.Outcome.Failure != nil || result.Outcome.Exit != c.exit {
				t.Errorf("it ended with %v, %+v", err, result)
			}
		})
	}
}

func TestAnEmptiedCacheStopsNoProgram(t *testing.T) {
	t.Parallel()
	d, spec := driver(t)
	e := hosted.New(d)
	t.Cleanup(func() { _ = e.Close() })
	for range 2 {
		result, err := e.Run(t.Context(), engine.Job{Run: "run", Owner: "tester", Sandbox: spec, Program: bridge.Program{
			Language: "python", Name: "main.py", Source: "1 + 1",
		}}, quietHandler{})
		if err != nil || result.Outcome.Value != bridge.Value(int64(2)) {
			t.Fatalf("it ended with %v, %+v", err, result)
		}
		if err := os.RemoveAll(d.Cache); err != nil {
			t.Fatal(err)
		}
	}
}

// quietHandler ignores what a program prints.
type quietHandler struct{ bridge.Handler }

func (quietHandler) Print(string, string) {}

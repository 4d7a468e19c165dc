package py_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

func job(source string, limits bridge.Limits) engine.Job {
	return engine.Job{Owner: "tester", Program: bridge.Program{Language: "python", Name: "main.py", Source: source, Tools: numbers, Limits: limits}}
}

// Each of these programs must end in its way within its limits, and the worker
// or its successor must go on.
func TestBadCodeEndsInItsWay(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, c := range []struct {
		name, source string
		code         toolroom.Code      // of the error of the run
		failure      bridge.FailureKind // or of the program
	}{
		{"an endless loop that catches everything", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", toolroom.CodeTimeout, ""},
		{"an endless sleep", "import time\ntime.sleep(1e9)", toolroom.CodeTimeout, ""},
		{"an endless sum in one operation", "import itertools\nsum(itertools.count())", toolroom.CodeTimeout, ""},
		{"a busy regular expression", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')", toolroom.CodeTimeout, ""},
		{"a read of the bridge itself", "import os\nwhile True: os.read(0, 1)", toolroom.CodeTimeout, ""},
		{"a memory bomb", "a = []\nwhile True: a.append(bytearray(1 << 20))", toolroom.CodeResourceLimit, ""},
		{"a memory bomb in one step", "'x' * (1 << 30)", toolroom.CodeResourceLimit, ""},
		{"deep recursion through natives", "def f(x): return sorted([1, 2], key=f)\nf(1)", "", bridge.FailProgram},
		{"the end of the interpreter", "import os\nos._exit(3)", "", bridge.FailProgram},
		{"an abort", "import os\nos.abort()", "", bridge.FailProgram},
		{"garbage on the bridge", "import os\nos.write(0, b'\\xff' * 64)", "", bridge.FailProgram},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := bridge.Limits{Wall: 60_000, Memory: 96 << 20}
			if c.code == toolroom.CodeTimeout {
				limits.Wall = 500
			}
			result, err := e.Run(t.Context(), job(c.source, limits), silent{})
			var kind bridge.FailureKind
			if err == nil && result.Outcome.Failure != nil {
				kind = result.Outcome.Failure.Kind
			}
			if toolroom.CodeOf(err) != c.code && c.code != "" || c.code == "" && (err != nil || kind != c.failure) {
				t.Errorf("it ended with %v, %+v; want %s%s", err, result, c.code, c.failure)
			}
			result, err = e.Run(t.Context(), job("1 + 1", bridge.Limits{}), silent{})
			if err != nil || result.Outcome.Value != bridge.Value(int64(2)) {
				t.Errorf("the next program got %+v, %v", result, err)
			}
		})
	}
}

func TestAttacksFromInsideFindNothing(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, attack := range []string{
		"open('/etc/passwd')", "open('/proc/self/environ')", "open('/run/folder/x', 'w')", "os.listdir('/')", "os.listdir('/run')",
		"os.environ['PATH']", "os.symlink('/', 'x')", "os.kill(1, 9)", "os.fork()", "os.execv('/bin/true', ['true'])", "os.system('id')",
		"__import__('subprocess').run(['id'])", "__import__('socket').create_connection(('127.0.0.1', 80), 1)",
		"__import__('ctypes').CDLL(None)", "__import__('threading').Thread(target=print).start()", "os.read(3, 1)", "os.fstat(63)",
	} {
		t.Run(attack, func(t *testing.T) {
			source := fmt.Sprintf("import os\ntry:\n    %s\n    got = 'done'\nexcept Exception as e:\n    got = 'refused'\ngot", attack)
			result, err := e.Run(t.Context(), job(source, bridge.Limits{}), silent{})
			if err != nil || result.Outcome.Value != bridge.Value("refused") {
				t.Errorf("it was not refused: %+v, %v", result, err)
			}
		})
	}
	if p := e.Probe(t.Context()); !strings.HasPrefix(p.Isolation, "wasm") {
		t.Errorf("the isolation is %q", p.Isolation)
	}
}

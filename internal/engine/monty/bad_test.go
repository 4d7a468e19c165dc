package monty_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty"
)

// Each of these programs must end in its way within its limits, and the worker
// or its successor must go on.
var bad = []struct {
	name, source string
	code         toolroom.Code      // of the error of the run
	failure      bridge.FailureKind // or of the program
	says         string
}{
	{"an endless loop", "while True: pass", toolroom.CodeTimeout, "", ""},
	{"an endless loop that catches everything", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", toolroom.CodeTimeout, "", ""},
	{"an endless sleep", "import time\ntime.sleep(1e9)", toolroom.CodeTimeout, "", ""},
	{"an endless sleep that is awaited", "import asyncio\nawait asyncio.sleep(1e9)", toolroom.CodeTimeout, "", ""},
	{"an endless map", "import itertools\nlist(map(str, itertools.count()))", toolroom.CodeResourceLimit, "", "memory"},
	{"an endless sum", "import itertools\nsum(itertools.count())", toolroom.CodeTimeout, "", ""},
	{"deep recursion", "def f(): return f()\nf()", "", bridge.FailProgram, "recursion"},
	{"deep recursion through natives", "def f(x): return sorted([1, 2], key=f)\nf(1)", "", bridge.FailProgram, "recursion"},
	{"deep recursion in a repr", "class A:\n    def __repr__(self): return repr(self)\nrepr(A())", "", bridge.FailProgram, "recursion"},
	{"source that nests too deep", strings.Repeat("(", 5000) + strings.Repeat(")", 5000), "", bridge.FailSyntax, "nested"},
	{"a memory bomb of lists", "a = []\nwhile True: a.append([0] * 10000)", toolroom.CodeResourceLimit, "", "memory"},
	{"a memory bomb of strings", "s = 'x'\nwhile True: s += s", toolroom.CodeResourceLimit, "", "memory"},
	{"a memory bomb in one step", "'x' * (1 << 60)", toolroom.CodeResourceLimit, "", "memory"},
	{"a memory bomb of dicts that catches everything", "d = {}\nwhile True:\n    try:\n        d[len(d)] = 'x' * 1000\n    except BaseException:\n        pass", toolroom.CodeResourceLimit, "", "memory"},
	{"giant integers", "n = 3\nwhile True: n = n * n % (1 << 400000) + 1", toolroom.CodeTimeout, "", ""},
	{"a giant power", "10 ** 10 ** 9", toolroom.CodeResourceLimit, "", "memory"},
	{"huge output", "while True: print('x' * 10000)", toolroom.CodeResourceLimit, "", "printed"},
	{"a value that is small and unfolds without end", "a = [1]\nfor _ in range(60): a = [a, a]\na", "", bridge.FailValue, "pieces"},
	{"an argument that is small and unfolds without end", "a = [1]\nfor _ in range(60): a = [a, a]\ntools.number.same(n=a)", "", bridge.FailProgram, "pieces"},
	{"a cyclic value", "a = {'list': []}\na['list'].append(a)\na", "", bridge.FailValue, "list[0]"},
	{"a value nested too deep", "a = []\nfor _ in range(300): a = [a]\na", "", bridge.FailValue, "nests"},
	{"a value nested far too deep", "a = []\nfor _ in range(100000): a = [a]\na", "", bridge.FailValue, ""},
	{"a function in a value", "{'rows': [1, lambda: 2]}", "", bridge.FailValue, "rows[1]"},
	{"a class in a value", "[int]", "", bridge.FailValue, "value[0] is the class int"},
	{"an object in a value", "class A: pass\n[A()]", "", bridge.FailValue, "value[0] is an object of the class A"},
	{"a number that is none", "float('inf')", "", bridge.FailValue, "value is"},
	{"keys that are no text", "{1: 2}", "", bridge.FailValue, "key 1"},
	{"ten thousand calls at once", "import asyncio\nawait asyncio.gather(*[tools.number.same(n=n) for n in range(10000)])", toolroom.CodeResourceLimit, "", "limit of 100 calls"},
	{"calls without end", "while True:\n    try:\n        tools.number.same(n=1)\n    except Exception:\n        pass", toolroom.CodeResourceLimit, "", "limit of 100 calls"},
	{"a busy regular expression", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')", "", "", ""},
	{"bytes that are no text", "x = '\\ud800'\nx", "", "", ""},
	{"a text of the whole of nothing", "\x00", "", bridge.FailSyntax, ""},
	{"a file", "open('/etc/passwd').read()", "", bridge.FailProgram, "PermissionError"},
	{"an import of nothing", "import nothing.at.all", "", bridge.FailUnsupported, "nothing"},
}

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	e := open(t)
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
				t.Errorf("the program ended with %q: %.300s, want %q%s", kind, text, c.failure, c.code)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q: %.300s", c.says, text)
			}
			result, err = e.Run(t.Context(), job("1 + 1", bridge.Limits{}), silent{})
			if err != nil || result.Outcome.Value != bridge.Value(int64(2)) {
				t.Errorf("the next program got %+v, %v", result, err)
			}
		})
	}
	heart()
}

// beat runs small programs of another owner all the time; what it returns
// checks that each came through.
func beat(t *testing.T, e *monty.Engine) (check func()) {
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
			j := job("tools.number.same(n=7)", bridge.Limits{})
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

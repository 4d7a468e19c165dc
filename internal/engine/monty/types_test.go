package monty_test

import (
	"context"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// counting is a host that counts calls.
type counting struct {
	silent
	calls *int
}

func (c counting) Call(context.Context, string, bridge.Map) (bridge.Value, error) {
	*c.calls++
	return bridge.Map{{Key: "number", Value: int64(7)}, {Key: "labels", Value: []bridge.Value{"bug"}}}, nil
}

var issues = []bridge.Tool{
	{
		ID: "github:create_issue", Path: []string{"github", "create_issue"}, Kind: "mcp", Globals: [][]string{{"github", "create_issue"}, {"mcp", "github", "create_issue"}},
		Parameters: []bridge.Parameter{{Name: "title", Type: "string", Required: true}, {Name: "count", Type: "integer"}, {Name: "labels", Type: "array"}, {Name: "options", Type: "object"}},
	},
	{ID: "git:status", Path: []string{"git", "status"}, Kind: "cli", Globals: [][]string{{"cli", "git", "status"}}, Parameters: []bridge.Parameter{{Name: "short", Type: "boolean"}, {Name: "_"}}, Open: true},
}

func runIssues(t *testing.T, e engine.Engine, source string) (*engine.Result, int) {
	t.Helper()
	calls := 0
	j := job(source, bridge.Limits{})
	j.Program.Tools = issues
	result, err := e.Run(t.Context(), j, counting{calls: &calls})
	if err != nil {
		t.Fatalf("%s\nended with %v", source, err)
	}
	return result, calls
}

func TestCallsThatTheTypeCheckerFindsWrongAreRefusedBeforeAnyToolIsCalled(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	const shape = "tools.github.create_issue(title=...)"
	for _, c := range []struct {
		name, source, says string
		line               int
	}{
		{"a wrong name by another name of the tool", "tools.github.create_issue(title='a')\nmake = tools.github.create_issue\nmake(titel='x')", "no argument titel", 3},
		{"a missing argument by another name of the tool", "tools.github.create_issue(title='a')\nmake = github.create_issue\ndef go():\n    return make(count=1)\ngo()", "needs title", 4},
		{"a number where text is needed", "github.create_issue(title='a')\ngithub.create_issue(title=5)", "takes str here, and gets Literal[5]", 2},
		{"text where a number is needed, by a name", "n = '5'\nmcp.github.create_issue(title='a', count=n)", `takes int here, and gets Literal["5"]`, 2},
		{"text where a list is needed", "tools.github.create_issue(title='a', labels='bug')", "takes list", 1},
		{"a list where a map is needed", "tools['github']['create_issue'](title='a', options=[1])", "takes dict", 1},
		{"too many without a name", "tools.github.create_issue('a', 1, [], {}, 5)", "fewer arguments", 1},
		{"a name twice", "tools.github.create_issue('a', title='b')", "has one of these twice", 1},
		{"an answer that is used without await, in a function", "r = tools.github.create_issue(title='a')\nasync def f():\n    for x in r: pass\nawait f()", "without await", 3},
		{"an answer of another name that is used without await", "make = tools.github.create_issue\nr = make(title='a')\nprint(r['number'])\nawait make(title='b')", "without await", 3},
		{"an answer that is an argument without await", "r = tools.github.create_issue(title='a')\nawait tools.github.create_issue(title=r)", "without await", 2},
	} {
		result, calls := runIssues(t, e, c.source)
		f := result.Outcome.Failure
		if f == nil || f.Kind != bridge.FailCheck || calls != 0 {
			t.Errorf("%s: %d calls, and %v", c.name, calls, f)
			continue
		}
		if !strings.Contains(f.Message, c.says) || !strings.Contains(f.Message, shape) || f.Line != c.line {
			t.Errorf("%s: line %d: %s\nwant line %d with %q and the call", c.name, f.Line, f.Message, c.line, c.says)
		}
	}
}

// The type checker complains of most of these; they run well.
func TestWhatTheTypeCheckerDislikesAndRunsWellRuns(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	for name, source := range map[string]string{
		"a value that may be nothing":         "d = {'a': 'b'}\ntools.github.create_issue(title=d.get('a'))",
		"arguments in a dict":                 "d = {'title': 'b', 'count': 3}\ntools.github.create_issue(**d)",
		"arguments in a dict of mixed types":  "d = {'title': 'b'}\nd['count'] = 3\ntools.github.create_issue(**d)",
		"one dict as all arguments":           "tools.github.create_issue({'title': 'a', 'count': 1})",
		"a dict whose values change":          "rows = [{'id': 5}]\nfor row in rows:\n    row['id'] = str(row['id'])\nfor row in rows:\n    tools.github.create_issue(title=row['id'])",
		"a name of two types":                 "n = '5'\nn = int(n)\ndef go():\n    return tools.github.create_issue(title='a', count=n)\ngo()",
		"names of its own that are typed":     "def f(s: str): return s\ntools.github.create_issue(title='x', count=1)\nf(5)\nx: int = 'a'\n[1, 2].append('c')",
		"a class of its own":                  "class A:\n    def __init__(self): self.items = []\n    def add(self, x: int): self.items.append(x)\na = A()\na.add('x')\ntools.github.create_issue(title=a.items[0])",
		"a tuple as a list":                   "tools.github.create_issue(title='x', labels=('a', 'b'))",
		"a whole float as an integer":         "tools.github.create_issue(title='x', count=2.0)",
		"a truth in place of a word":          "cli.git.status(True, short=True)\ncli.git.status('-s', 1, other='x')",
		"a variable that replaces a tool":     "github = {'create_issue': lambda **k: 3}\ntools.github.create_issue(title='a')\ngithub['create_issue'](titel=3)",
		"answers that are awaited in place":   "pending = {'a': tools.github.create_issue(title='x')}\nfor k in list(pending): pending[k] = await pending[k]\npending['a']['number']\nfor k, v in pending.items(): v['labels'][0]",
		"an answer under the same name":       "r = tools.github.create_issue(title='x')\ndef f(): return r['number']\nr = await r\nf()",
		"an answer that is set by a function": "r = None\nasync def f():\n    global r\n    r = tools.github.create_issue(title='x')\n    r = await r\nawait f()\nr['number']",
		"answers gathered":                    "import asyncio\nrows = await asyncio.gather(*[tools.github.create_issue(title=str(n)) for n in range(3)])\nsum(r['number'] for r in rows)",
		"an answer that is looked at first":   "r = tools.github.create_issue(title='x')\nif isinstance(r, dict):\n    r['number']\nr = await r\nr['number']",
		"a late await in a loop":              "last = None\nfor i in range(3):\n    if i > 0:\n        (await last)['number']\n    last = tools.github.create_issue(title='x')\nawait last",
		"a function that gives an answer":     "def ask(n):\n    return tools.github.create_issue(title=n)\n(await ask('x'))['number']",
		"two tools by one name":               "make = tools.github.create_issue\nmake(title='x')\nmake = cli.git.status\nmake(other=1)",
		"a path and a moment":                 "import datetime\ntools.github.create_issue(title=datetime.datetime(2026, 1, 2))",
		"names that shadow in a function":     "def f(tools): return tools.github.create_issue(1, 2)\nclass T: pass\nt = T()\nt.github = T()\nt.github.create_issue = lambda a, b: a\nf(t)\n'tools.github.create_issue(titel=1)'",
	} {
		if result, _ := runIssues(t, e, source); result.Outcome.Failure != nil {
			t.Errorf("%s:\n%s\nended with %v", name, source, result.Outcome.Failure)
		}
	}
}

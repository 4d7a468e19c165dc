package monty_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/code/stub"
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

// declareIssues declares the tools of issues, with more in their schemas than a
// program is told of.
func declareIssues(awaits bool) string {
	return stub.Python([]stub.Tool{
		{
			ID: "github:create_issue", Namespace: "github", Name: "create_issue", Global: true, Server: true,
			Input: json.RawMessage(`{"required": ["title"], "properties": {"title": {"type": "string"}, "count": {"type": "integer"},
				"labels": {"type": "array", "items": {"type": "string"}}, "options": {"type": "object", "properties": {"draft": {"type": "boolean"}}}}}`),
			Output: json.RawMessage(`{"type": "object", "required": ["number"], "properties": {"number": {"type": "integer"}, "labels": {"type": "array", "items": {"type": "string"}}}}`),
		},
		{ID: "git:status", Namespace: "git", Name: "status", Command: true},
	}, awaits)
}

func runIssues(t *testing.T, e engine.Engine, source string) (*engine.Result, int) {
	t.Helper()
	j := job(source, bridge.Limits{})
	return runJob(t, e, j)
}

// runIn runs a program in a session, from its state.
func runIn(t *testing.T, e engine.Engine, state []byte, source string) (*engine.Result, int) {
	t.Helper()
	j := job(source, bridge.Limits{})
	j.Program.Session, j.Program.State = "work", state
	return runJob(t, e, j)
}

func runJob(t *testing.T, e engine.Engine, j engine.Job) (*engine.Result, int) {
	t.Helper()
	calls := 0
	j.Program.Tools, j.Declare = issues, declareIssues
	result, err := e.Run(t.Context(), j, counting{calls: &calls})
	if err != nil {
		t.Fatalf("%s\nended with %v", j.Program.Source, err)
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
		{"a map whose members are known", "tools.github.create_issue(title='a', options=5)", "takes dict here, and gets Literal[5]", 1},
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

// A session's programs may have given any name another meaning.
func TestTheTypeCheckerLooksAtProgramsOfASessionThatGoesOn(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, c := range []struct{ name, before, source, refused string }{
		{"a wrong name by another name of the tool", "x = 1", "make = tools.github.create_issue\nmake(titel='x')", "no argument titel"},
		{"a number where text is needed", "rows = [1]", "n = 5\ntools.github.create_issue(title=n)", "takes str"},
		{"a value of an earlier program", "title = 'a'", "tools.github.create_issue(title=title)", ""},
		{"a name of a tool that was bound", "github = {'create_issue': lambda **k: 3}", "github['create_issue'](titel=5)", ""},
		{"a name that was bound to something else", "make = lambda **k: 3", "def go(): return make(titel=5)\ngo()\nmake = tools.github.create_issue", ""},
		{"a builtin of its own", "def len(x): return 'abc'", "tools.github.create_issue(title=len((1, 2)))", ""},
		{"a function that Monty lacks", "def vars(x): return x", "vars(3)", ""},
		{"a parameter of an earlier function", "def f(tools): return tools\nf(1)", "tools['github']['create_issue'](title=5)", "takes str"},
	} {
		first, _ := runIn(t, e, nil, c.before)
		result, calls := runIn(t, e, first.Outcome.State, c.source)
		switch f := result.Outcome.Failure; {
		case c.refused == "" && f != nil:
			t.Errorf("%s: %v", c.name, f)
		case c.refused != "" && (f == nil || !strings.Contains(f.Message, c.refused) || calls > 0):
			t.Errorf("%s: %d calls, and %v", c.name, calls, f)
		}
	}
}

func TestAVariableOfASessionIsNotReplacedByTheToolsOfItsName(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	first, _ := runIn(t, e, nil, "github = {'a': 1}\nartifacts = 2\ndef f(cli): return cli")
	second, _ := runIn(t, e, first.Outcome.State, "cli.git.status('x')\n[github['a'], artifacts, tools.github.create_issue(title='x')['number']]")
	third, _ := runIn(t, e, second.Outcome.State, "[github['a'], artifacts, tools.github.create_issue(title='x')['number']]")
	for _, result := range []*engine.Result{second, third} {
		if got, err := bridge.ToJSON(result.Outcome.Value); err != nil || string(got) != "[1,2,7]" {
			t.Errorf("%s, %v, %v", got, err, result.Outcome.Failure)
		}
	}
}

func TestALargeProgramIsTypeChecked(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	source := strings.Repeat("# It is long.\nrows = [{'title': 'a'} for n in range(10)]\n", 3000) + "n = 5\ntools.github.create_issue(title=n)"
	result, calls := runIssues(t, e, source)
	if f := result.Outcome.Failure; f == nil || f.Kind != bridge.FailCheck || f.Line != 6002 || calls != 0 {
		t.Errorf("%d bytes: %d calls, and %v", len(source), calls, f)
	}
}

package program_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
)

var tools = []bridge.Tool{
	{ID: "math:add", Path: []string{"math", "add"}, Globals: [][]string{{"math", "add"}}, Parameters: []bridge.Parameter{{Name: "a", Required: true}, {Name: "b"}}},
	{ID: "docker-compose:up", Path: []string{"docker_compose", "up"}, Kind: "cli", Globals: [][]string{{"cli", "docker_compose", "up"}}, Open: true},
}

func prepare(source string) (*program.Prepared, *bridge.Failure) {
	return program.Prepare(bridge.Program{Name: "main.py", Source: source, Tools: tools}, nil)
}

func TestWhatMontyDoesNotRunIsRefusedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, says string }{
		{"import numpy as np", "the module numpy"},
		{"import json, requests", "the module requests"},
		{"def f():\n    from os.path import join\n    from io import StringIO", "the module io, in line 3"},
		{"x = 2j", "a complex number"},
		{"print(callable(print))", "callable"},
		{"print(f'{globals()}')", "globals"},
		{"import sys\nsys.exit(1)", "sys.exit"},
		{"try: pass\nexcept ToolError: pass\nexcept ValueError: pass", "ToolError beside ValueError"},
		{"await cli.git.status().text()", "await of .text()"},
		{`x = 1` + "\n" + `['a\ud83d\ude00']`, "half a surrogate pair, in line 2"},
		{`"\U0000DC00"`, "half a surrogate pair"},
		{`f'{1} \uD800'`, "half a surrogate pair"},
	} {
		_, f := prepare(c.source)
		if f == nil || f.Kind != bridge.FailUnsupported || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s\nended with %v, want it refused for %s", c.source, f, c.says)
		}
	}
}

func TestWhatOnlyLooksLikeItIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"# class A(B): yield del\nx = 'import numpy; yield'",
		"x = '''\ndel x\nimport numpy\n'''",
		"print(f'{1:>{2}} {{yield}} {\"del\"!r}')",
		"type = 3\ntype in [3]\nmatch = 1\nmatch.x",
		"def f(callable): return callable\ncallable = 2",
		"x.yield_ = 1\nx.del_ = 2\nd = {'del': 1}",
		"class A: pass\nclass B(): pass\n@dec\ndef f(): pass\n@dec\nclass C: pass",
		"class A:\n    def f(self): pass\n@dec\ndef g(): pass",
		"import os.path, json as j\nfrom datetime import (datetime,\n  timedelta)",
		"f(dir=1, input=2)",
		`['\\ud800', r'\ud800', b'\ud800', '\ud7ff', '\u00d8', '\U0001F600', "\ue000", f'{1} \\ud800']` + "\n# '\\ud800'",
		"x = 0xj\n",
		"(await cli.git.status()).text()\ncli.git.status",
	} {
		if _, f := prepare(source); f != nil {
			t.Errorf("%s\nwas refused: %v", source, f)
		}
	}
}

func TestCallsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source, says string
		line, column int
	}{
		{"x = 1\ny = tools.math.addd(a=1)", "did you mean tools.math.add(a=...)", 2, 5},
		{"math.sub(1)", "math has add", 1, 1},
		{"tools.math.add(a=1, c=2)", "no argument c", 1, 1},
		{"tools['math']['add'](b=2)", "needs a", 1, 1},
		{"print(f'{tools.math.add()}')", "needs a", 1, 10},
		{"await x\ntools.math.add(a=1) + 1", "await", 2, 1},
		{"await x\nfor i in math.add(a=1): pass", "await", 2, 10},
		{"await x\nf'{math.add(a=1)}'", "await", 2, 4},
		{"await x\nmath.add(a=1)['rows']", "await", 2, 1},
		{"await x\nr = math.add(a=1)\nprint(1)\nr['rows']", "await tools.math.add(a=...)", 4, 1},
		{"await x\nr = math.add(a=1)\nlen(r.rows) + len(r['x'])", "await", 3, 5},
	} {
		_, f := prepare(c.source)
		if f == nil || f.Kind != bridge.FailCheck || !strings.Contains(f.Message, c.says) || f.Line != c.line || f.Column != c.column {
			t.Errorf("%s\nended with %+v, want %s at %d:%d", c.source, f, c.says, c.line, c.column)
		}
	}
	for _, source := range []string{
		"tools.math.add(1, 2)", "tools.math.add(**x)", "tools.math.add(*x)", "tools.other.thing(z=1)", "call_tool('math:add')",
		"math = 1\nmath.ad()", "import math\nmath.sqrt(2)", "for math in y: math.x()", "def f(math): math.x()",
		"await asyncio.gather(math.add(a=1), math.add(a=2))", "x = math.add(a=1)\nawait x", "await y\nx = math.add(a=1)\nx = await x\nx['rows']",
		"await y\nx = math.add(a=1)\nfor x in y: x['rows']", "await y\nx = cli.git.status()\nx.text()", "await y\nx = math.add(a=1)\nf(x=x)\ny.x['rows']",
		"tools.math.add(a=f(c=1))",
	} {
		if _, f := prepare(source); f != nil {
			t.Errorf("%s\nwas refused: %v", source, f)
		}
	}
}

func TestLinesStayAndColumnsAreToldAsTheAuthorHasThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want string }{
		{`tools["math"]["add"](a=1)`, `tools.math   .add   (a=1)`},
		{`cli['docker-compose'].up()`, `cli.docker_compose   .up()`},
		{"r = cli.git.status()\nr['exit_code']", "r = cli.git.status()\nr.exit_code   "},
		{"try: x()\nexcept ToolError as e:\n    e.code, x.e.code, e, f'{e.hint}'\ne.code", "try: x()\nexcept NotADirectoryError as e:\n    toolroom_error_details(e).code, x.e.code, e, f'{toolroom_error_details(e).hint}'\ne.code"},
		{"try: x()\nexcept A as e:\n    try: y()\n    except B as e: e.code", "try: x()\nexcept A as e:\n    try: y()\n    except B as e: toolroom_error_details(e).code"},
	} {
		ready, f := prepare(c.source)
		if f != nil {
			t.Errorf("%s\nwas refused: %v", c.source, f)
			continue
		}
		if diff := cmp.Diff(c.want, ready.Source); diff != "" {
			t.Error(diff)
		}
	}
	ready, _ := prepare("a\ntry: ä()\nexcept ToolError as e: e.code; here")
	line := strings.Split(ready.Source, "\n")[2]
	if got, want := ready.AuthorColumn(3, strings.Index(line, "here")+1), strings.Index("except ToolError as e: e.code; here", "here")+1; got != want {
		t.Errorf("the column is %d, want %d", got, want)
	}
}

func FuzzPrepare(f *testing.F) {
	for _, unit := range []string{`(`, `[`, `{`, `f'{`, `not `, `-`, `lambda:`, `if a: `, `a if b else `, `tools.a.b(`} { // nested deep
		f.Add(strings.Repeat(unit, 20_000))
	}
	for _, seed := range []string{
		"x = f'{a:{b}} {{ {c!r:>{d}} }'", "'''", "f'''{x", "f'{f'{f'{1}'}'}'", "(((", ")))", "class A(", "import", "from", "except ToolError as", "tools[\"a\"][\"b\"]",
		"\\", "1e", "0x", "é = 1", "\xff\xfe", "async", "async for", "try:\n  x\nexcept ToolError as e:\n  e.code",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		ready, failure := prepare(source)
		if (ready == nil) == (failure == nil) {
			t.Fatal("neither ready nor refused, or both")
		}
		if ready != nil && strings.Count(ready.Source, "\n") != strings.Count(source, "\n") {
			t.Errorf("%q became %q", source, ready.Source)
		}
	})
}

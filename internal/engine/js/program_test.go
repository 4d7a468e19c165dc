package js_test

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/js"
)

var tools = []bridge.Tool{
	{
		ID: "github:create_issue", Path: []string{"github", "create_issue"}, Globals: [][]string{{"github", "create_issue"}, {"mcp", "github", "create_issue"}},
		Parameters: []bridge.Parameter{{Name: "title", Type: "string", Required: true}, {Name: "body", Type: "string"}},
	},
	{ID: "git:status", Path: []string{"git", "status"}, Globals: [][]string{{"cli", "git", "status"}}, Kind: "cli", Open: true},
}

func prepare(language, source string) (*js.Program, *bridge.Failure) {
	return js.Prepare(bridge.Program{Language: language, Name: "main", Source: source, Tools: tools})
}

func TestProgramsBecomeOneFunction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, language, source, want string }{
		{"a program that returns", "javascript", "return 1", "(async()=>{return 1\n})"},
		{"a program that ends in an expression", "javascript", "const a = 1\na + 1", "(async()=>{const a = 1\nreturn a + 1\n})"},
		{"an expression in parentheses", "javascript", "(1, 2).toFixed()", "(async()=>{return (1, 2).toFixed()\n})"},
		{"an early return", "javascript", "if (a) return 1\n2", "(async()=>{if (a) return 1\n2\n})"},
		{"a return inside a function", "javascript", "const f = () => { return 1 }\nf()", "(async()=>{const f = () => { return 1 }\nreturn f()\n})"},
		{"an assignment is no value", "javascript", "a = 1", "(async()=>{a = 1\n})"},
		{"nothing", "javascript", "", "(async()=>{\n})"},
		{"toolexec", "javascript", `issue := run("github:create_issue", {title: "Bug fix"})`, "(async()=>{var issue = run(\"github:create_issue\", {title: \"Bug fix\"})\n})"},
		{"toolexec inside a block", "javascript", "if (x) {\n  a := 1\n}", "(async()=>{if (x) {\n  var a = 1\n}\n})"},
		{"no toolexec in texts", "javascript", "const a = 'b := 1'; // c := 2\n/d := 3/.test(`e := 4`)", "(async()=>{const a = 'b := 1'; // c := 2\nreturn /d := 3/.test(`e := 4`)\n})"},
		{"types are stripped", "typescript", "const a: number = 1\nreturn a as any", "(async () => {\n  const a = 1;\n  return a;\n})"},
		{"types in what is called javascript", "javascript", "const a: number = 1\nreturn a", "(async () => {\n  const a = 1;\n  return a;\n})"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, failure := prepare(c.language, c.source)
			if failure != nil {
				t.Fatal(failure)
			}
			if p.Source != c.want {
				t.Errorf("got  %s\nwant %s", p.Source, c.want)
			}
		})
	}
}

func TestPositionsLeadBackToTheAuthorsText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, language, source string }{
		{"the first line", "javascript", "const ü = HERE"},
		{"a later line", "javascript", "const a = 1\n\n   HERE(a)\nreturn 1"},
		{"after toolexec", "javascript", "a := 1; b := HERE\nc := 3"},
		{"after a return that was added", "javascript", "1\n  a + HERE + b"},
		{"typescript", "typescript", "interface A {\n  a: number\n}\nconst a: A = {a: 1};\n\nreturn a.a +   HERE"},
		{"typescript with toolexec", "typescript", "type T = number\nx := (1 as T) + HERE\nreturn x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, failure := prepare(c.language, c.source)
			if failure != nil {
				t.Fatal(failure)
			}
			ranLine, ranColumn := find(p.Source)
			wantLine, wantColumn := find(c.source)
			line, column, ok := p.MapPosition(ranLine, ranColumn)
			if !ok || line != wantLine || column != wantColumn {
				t.Errorf("%d:%d of what ran is %d:%d, %v; want %d:%d", ranLine, ranColumn, line, column, ok, wantLine, wantColumn)
			}
			f := &bridge.Failure{Line: ranLine, Column: ranColumn, Trace: "    at f (<program>:1:1)\n    at <program>:99:1\n"}
			p.MapFailure(f)
			if f.File != "main" || f.Line != wantLine || strings.Contains(f.Trace, "<program>") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func find(text string) (line, column int) {
	before, _, _ := strings.Cut(text, "HERE")
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, len([]rune(before[start:])) + 1
}

func TestMistakesAreFoundBeforeTheRun(t *testing.T) {
	t.Parallel()
	const shape = "await tools.github.create_issue({title: string, body?: string})"
	for _, c := range []struct {
		source string
		typ    string
		line   int
		says   string
	}{
		{"await tools.github.create_isue({title: 'a'})", "UnknownTool", 1, "did you mean " + shape},
		{"await github.create_isue({title: 'a'})", "UnknownTool", 1, shape},
		{"await tools.github.paint({title: 'a'})", "UnknownTool", 1, "this program has create_issue"},
		{"\nawait tools.github.create_issue({titel: 'a'})", "WrongArgument", 2, "has no argument titel"},
		{"await mcp.github.create_issue({body: 'a'})", "WrongArgument", 1, "needs the argument title"},
		{"await tools.github.create_issue()", "WrongArgument", 1, "needs the argument title"},
		{"tools.github.create_issue({title: 'a'})\nreturn 1", "ForgottenAwait", 1, shape},
		{"return tools.github.create_issue({title: 'a'}).number", "ForgottenAwait", 1, shape},
		{"return `${github.create_issue({title: 'a'})}`", "ForgottenAwait", 1, shape},
		{"for (const i of github.create_issue({title: 'a'})) {}", "ForgottenAwait", 1, shape},
		{"const i = github.create_issue({title: 'a'})\nreturn i.number", "ForgottenAwait", 2, "const i = " + shape},
		{"const i = github.create_issue({title: 'a'})", "ForgottenAwait", 1, "never awaited"},
		{"const n = call_tool('github:create_issue', {}) + 1", "ForgottenAwait", 1, shape},
		{"const x: string = 1;\n\nawait github.create_isue({title: 'a'})", "UnknownTool", 3, shape},
		{"const a = 1;\nconst b = = 2", "SyntaxError", 2, "Unexpected"},
		{"if (a) {", "SyntaxError", 1, ""},
		{"import fs from 'fs'", "SyntaxError", 1, "imports nothing"},
	} {
		t.Run(c.source, func(t *testing.T) {
			t.Parallel()
			_, f := prepare("javascript", c.source)
			if f == nil {
				t.Fatal("it was let through")
			}
			if f.Type != c.typ || f.Line != c.line || !strings.Contains(f.Message, c.says) {
				t.Errorf("got %s in line %d: %s", f.Type, f.Line, f.Message)
			}
		})
	}
}

func TestCallsThatMayBeCorrectAreAccepted(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"return tools.github.create_issue({title: 'a'})",
		"tools.github.create_issue({title: 'a'})",
		"return (await Promise.all([github.create_issue({title: 'a'}), github.create_issue({title: 'b'})])).length",
		"const p = github.create_issue({title: 'a'}); const r = await p; return r.number",
		"let p = github.create_issue({title: 'a'}); p = await p; return p.number",
		"const all = []; all.push(github.create_issue({title: 'a'})); await Promise.all(all)",
		"return github.create_issue({title: 'a'}).then((r) => r.number)",
		"const options = {title: 'a'}; return await github.create_issue(options)",
		"return await github.create_issue({...rest})",
		"return await github.create_issue({['ti' + 'tle']: 'a'})",
		"return await github.create_issue('a', 'b')",
		"return await cli.git.status({short: true}).text()",
		"return await cli.git.stash('list').lines()",
		"const github = {anything() {}}; github.anything(); return 1",
		"function f(github) { return github.anything() + 1 }\nreturn f({anything: () => 1})",
		"return await tools.elsewhere.thing({a: 1})",
		"for await (const x of [1]) {}\nreturn 1",
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			if _, f := prepare("javascript", source); f != nil {
				t.Errorf("%s: %s", f.Type, f.Message)
			}
		})
	}
}

func FuzzPrepare(f *testing.F) {
	for _, source := range []string{"", "a := 1", "return 1", "const a: number = 1", "}); (", "`${", "/[/]:=/", "await tools.github.create_issue({title})", "\xff:=", "x\n(1)"} {
		f.Add(source)
	}
	for _, d := range append(deep, deepTypes...) {
		f.Add(strings.Repeat(d[0], 300) + d[1] + strings.Repeat(d[2], 300))
	}
	f.Fuzz(func(_ *testing.T, source string) {
		p, _ := prepare("javascript", source)
		if p != nil {
			p.MapPosition(1, 1)
			p.MapPosition(1<<20, 1<<20)
		}
	})
}

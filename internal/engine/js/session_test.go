package js_test

import (
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/js"
)

func TestDeclarationsOfASessionBecomeGlobals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, language, source, want string }{
		{"nothing", "javascript", "1 + 1", "[[],(async()=>{return 1 + 1\n})]"},
		{"a constant", "javascript", "const x = 1; x", `[["x"],(async()=>{;0, x = 1; return x` + "\n})]"},
		{"several", "javascript", "let a, b = (2), c\nvar d", `[["a","b","c","d"],(async()=>{;0, a=void 0, b = (2), c=void 0` + "\n;0, d\n})]"},
		{"patterns", "javascript", "const {a, b: [c = z], ...d} = o, [e,, f] = p", `[["a","c","d","e","f"],(async()=>{;0, {a, b: [c = z], ...d} = o, [e,, f] = p` + "\n})]"},
		{"a class", "javascript", "class A extends B {}\n[1]", `[["A"],(async()=>{;A=class A extends B {};` + "\nreturn [1]\n})]"},
		{"a function that is used before", "javascript", "f()\nasync function f() { return 1 }\n(g)", `[["f"],(async()=>{` + "\nf=async function f() { return 1 };\nf()\n;\n" + `return (g)` + "\n})]"},
		{"what is within blocks stays there", "javascript", "for (let i = 0;;) { const x = 1 }", "[[],(async()=>{for (let i = 0;;) { const x = 1 }\n})]"},
		{"the form with :=", "javascript", "x := run('a:b')", `[["x"],(async()=>{;0, x = run('a:b')` + "\n})]"},
		{"types", "typescript", "const x: number = 1", `[["x"],(async () => {` + "\n  ;0, x = 1;\n})]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ready, failure := js.Prepare(bridge.Program{Language: c.language, Name: "main.js", Source: c.source, Session: "s"})
			if failure != nil {
				t.Fatal(failure)
			}
			if ready.Source != c.want {
				t.Errorf("got  %s\nwant %s", ready.Source, c.want)
			}
		})
	}
}

func TestPositionsOfMovedFunctionsMapToTheAuthorsText(t *testing.T) {
	t.Parallel()
	ready, failure := js.Prepare(bridge.Program{
		Language: "javascript", Name: "main.js", Session: "s",
		Source: "const x = 1\nf()\nfunction f() {\n  throw 1\n}\nnull.x",
	})
	if failure != nil {
		t.Fatal(failure)
	}
	// [["f","x"],(async()=>{
	// f=function f() {
	//   throw 1
	// };
	// ;0, x = 1
	for _, c := range []struct{ line, column, wantLine, wantColumn int }{
		{2, 1, 3, 1}, {3, 3, 4, 3}, {5, 5, 1, 7}, {6, 1, 2, 1},
	} {
		line, column, ok := ready.MapPosition(c.line, c.column)
		if !ok || line != c.wantLine || column != c.wantColumn {
			t.Errorf("%d:%d leads to %d:%d %v, want %d:%d in\n%s", c.line, c.column, line, column, ok, c.wantLine, c.wantColumn, ready.Source)
		}
	}
}

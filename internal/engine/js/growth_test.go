package js_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/js"
)

// repeated is a text with a form for each of some numbers, of which the form writes the
// number and the one before twice.
func repeated(form string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, form, i+1, i, i)
	}
	return b.String()
}

// esbuild computes members of enums, and writes them where they are used.
func TestTextsOfEnumsDoNotGrow(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"a member":          "enum A {a0='x'" + repeated(",a%d=a%d+a%d", 40) + "}\nreturn A.a40",
		"a template":        "enum A {a0='x'" + repeated(",a%d=`${a%d}${a%d}`", 40) + "}\nreturn A.a40",
		"of other enums":    "enum A0 {a='x'}" + repeated(";enum A%d {a=A%d.a+A%d['a']}", 40) + "\nreturn A40.a",
		"a comment":         "const enum/**/A // {\n{a0='x'" + repeated(",a%d=A.a%d+A.a%d", 40) + "}\nreturn A.a40",
		"an escape":         "enum \\u0041 {a0='x'" + repeated(",a%d=a%d+a%d", 40) + "}\nreturn A.a40",
		"an escape at last": "enum A\\u{41} {a0='x'" + repeated(",a%d=a%d+a%d", 40) + "}\nreturn AA.a40",
		"many uses":         "enum A {a='" + strings.Repeat("x", 100_000) + "'}\n" + strings.Repeat("A.a;", 100_000),
		"uses by name":      "enum A {a='" + strings.Repeat("x", 100_000) + "'}\n" + strings.Repeat("A['a'];", 100_000),
	} {
		if _, f := js.Prepare(bridge.Program{Language: "typescript", Source: source}); f == nil || !strings.Contains(f.Message, "enum") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, source := range []string{
		"enum A {a='x', b='y'}\nreturn A.a + A.b + `${A.a}` + 'z'",
		"enum A {a=1+2, b=A.a+1}\nreturn A.a",
		"const enum A {a = 1 << 2, b}\nconst s = 'a' + 'b'; return s + A.b",
		"const o = {enum: ['a'], b: {c: 'x' + 'y'}}; return o.enum",
		"enum A {a='x'}\nconst b = {c: 'd' + 'e'}; return b",
	} {
		if _, f := js.Prepare(bridge.Program{Language: "typescript", Source: source}); f != nil {
			t.Errorf("%s: %+v", source, f)
		}
	}
	files := map[string]string{
		"main.ts": "import {A} from './a.ts'\nexport function run() {" + strings.Repeat("A.a;", 1000) + "}",
		"a.ts":    "export enum A {a='" + strings.Repeat("x", 100_000) + "'}",
	}
	if _, f := js.NewBundle(files, "main.ts", "run", false, js.Packages{}); f == nil || !strings.Contains(f.Message, "a text of an enum") {
		t.Errorf("an enum of another file: %+v", f)
	}
}

// esbuild takes every way through files that export one another.
func TestExportsOfAllNamesAreCountedBeforeTheyAreMade(t *testing.T) {
	t.Parallel()
	every := map[string]string{"main.ts": "import * as a from './f0.ts'\nexport function run() {return a.x1}"}
	layers := map[string]string{"main.ts": "import * as a from './l0.ts'\nexport function run() {return a}", "l40.ts": "export const x = 1"}
	for i := range 40 {
		every[fmt.Sprintf("f%d.ts", i)] = repeated("export/**/*//\nfrom './f%d.ts'//%d %d\n", 39) + fmt.Sprintf("export const x%d = 1", i)
		layers[fmt.Sprintf("l%d.ts", i)] = fmt.Sprintf("export * from './m%d.ts'\nexport * from \"./n%d.ts\"", i, i)
		for _, half := range "mn" {
			layers[fmt.Sprintf("%c%d.ts", half, i)] = fmt.Sprintf("export\u2028*from'./l%d.ts'", i+1)
		}
	}
	every["f0.ts"] = "export * from './f1.ts'"
	for name, files := range map[string]map[string]string{"each exports all": every, "two ways to each": layers} {
		if _, f := js.NewBundle(files, "main.ts", "run", false, js.Packages{}); f == nil || !strings.Contains(f.Message, "name what is exported") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	few := map[string]string{
		"main.ts": "import {a, b, c} from './all.ts'\nexport function run() {return a + b + c.b}",
		"all.ts":  "export * from './a.ts'\nexport * from './b.ts'\nexport * as c from './b.ts'\n// export * from './none.ts'",
		"a.ts":    "export const a = 1\nexport * from './all.ts'", "b.ts": "export const b = 2",
	}
	b, f := js.NewBundle(few, "main.ts", "run", false, js.Packages{})
	if f != nil || !strings.Contains(b.Source, "a = 1") || !strings.Contains(b.Source, "b = 2") {
		t.Errorf("%+v, %+v", b, f)
	}
}

// esbuild reports each export that is there twice, and reads its line for that.
func TestExportsAreCountedBeforeTheyAreRead(t *testing.T) {
	t.Parallel()
	for text, fits := range map[string]bool{
		strings.Repeat("function f(){}export {f};", 10_000):                                   false,
		"function f(){}export {" + strings.Repeat("f,", 25_000) + "}":                         false,
		"function f(){}\nexport {\n" + strings.Repeat("f as\nf,\n", 9_000) + "}":              false,
		strings.Repeat("export const x = 1\n", 50) + "// " + strings.Repeat("a, b ", 100_000): true,
		"const l = [" + strings.Repeat("1,", 100_000) + "];export function run() {return l}":  true,
	} {
		_, f := js.NewBundle(map[string]string{"main.js": text, "o.js": ""}, "main.js", "run", false, js.Packages{})
		if crowded := f != nil && strings.Contains(f.Message, "too many exports"); crowded == fits {
			t.Errorf("%.50q: %+v", text, f)
		}
	}
}

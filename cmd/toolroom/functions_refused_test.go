package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

func TestCodeInOtherLanguagesThatCannotBeAToolIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	for name, c := range map[string]struct {
		file, source string
		want         []string
	}{
		"it does not parse":                 {"a.ts", "export function f(x: {\n", []string{"a.ts:2:1", "does not parse"}},
		"types in JavaScript":               {"a.js", "export function f(x: number) {}", []string{"a.js:1:20", "does not parse"}},
		"no function":                       {"a.ts", "const x = 1;\n", []string{"a.ts:1:1", "no function", "export"}},
		"two functions":                     {"a.ts", "function f(x: number) {}\nfunction g(x: number) {}\n", []string{"a.ts:2:1", "f in line 1", "none is exported"}},
		"one defined twice":                 {"a.ts", "export function f(x: number) {}\nexport const f = 1\n", []string{"a.ts:2:14", "f"}},
		"two defaults":                      {"a.ts", "export default function f() {}\nexport default function g() {}\n", []string{"a.ts:2:8", "default"}},
		"no type":                           {"a.ts", "export function f(x: number,\n  y) {}\n", []string{"a.ts:2:3", "y has no type"}},
		"no type in JavaScript":             {"a.js", "export function f(x) {}\n", []string{"a.js:1:19", "x has no type", "@param"}},
		"a comment that is no type":         {"a.js", "/** @param {number x */\nexport function f(x) {}\n", []string{"a.js:2:19"}},
		"a member without a type":           {"a.ts", "export function f(x: {a}) {}\n", []string{"a.ts:1:23", "a has no type"}},
		"a function as argument":            {"a.ts", "export function f(x: () => void) {}\n", []string{"a.ts:1:22", "is a function"}},
		"a method":                          {"a.ts", "interface A { go(): void }\nexport function f(x: A) {}\n", []string{"a.ts:1:15", "x.go is a function"}},
		"a class":                           {"a.ts", "class A {}\nexport function f(x: A) {}\n", []string{"a.ts:2:22", "class A"}},
		"an unknown type":                   {"a.ts", "export function f(x: Nope) {}\n", []string{"a.ts:1:22", "Nope", "not declared"}},
		"a type of a package":               {"a.ts", "import type {A} from 'a';\nexport function f(x: A) {}\n", []string{"a.ts:2:22", "module a"}},
		"a conditional type":                {"a.ts", "export function f(x: string extends string ? 1 : 2) {}\n", []string{"a.ts:1:22", "input_schema"}},
		"a symbol":                          {"a.ts", "export function f(x: symbol) {}\n", []string{"a.ts:1:22"}},
		"a return without a schema":         {"a.ts", "export function f(): symbol { return Symbol() }\n", []string{"a.ts:1:22", "return value"}},
		"an endless generic type":           {"a.ts", "type A<T> = {a: A<T[]>};\nexport function f(x: A<1>) {}\n", []string{"a.ts:1:17", "contains itself"}},
		"a type that grows":                 {"a.ts", growingType(14), []string{"more than 5000 parts"}},
		"a default of another type":         {"a.ts", "export function f(x: number = 'a' as any) {}\n", []string{"a.ts:1:31", `default of x is "a"`}},
		"a default not of the literals":     {"a.ts", "export function f(x: 'a' | 'b' = 'c') {}\n", []string{"a.ts:1:34", "default"}},
		"a default that is no JSON":         {"a.ts", "export function f(x: number = NaN) {}\n", []string{"a.ts:1:31", "no JSON value"}},
		"any number of values":              {"a.ts", "export function f(...x: number[]) {}\n", []string{"a.ts:1:19", "array"}},
		"a second one taken apart":          {"a.ts", "export function f(x: number, {y}: {y: number}) {}\n", []string{"a.ts:1:30", "taken apart"}},
		"a package":                         {"a.ts", "import x from 'left-pad';\nexport function f(y: number) { return x }\n", []string{"a.ts:1:15", `no module "left-pad"`}},
		"a file that is not there":          {"a.ts", "import {x} from './b';\nexport function f(y: number) { return x }\n", []string{"a.ts:1:17", "no file b"}},
		"nothing":                           {"a.ts", " \n", []string{"a.ts:1:1", "empty"}},
		"no text":                           {"a.js", "export function f() {}\n\xff", []string{"a.js:2:1", "UTF-8"}},
		"too much":                          {"a.ts", "//" + strings.Repeat("x", 1<<20), []string{"a.ts", "1 MiB"}},
		"deep brackets":                     {"a.ts", "export function f(x = " + strings.Repeat("[", 20_000) + ") {}", []string{"a.ts"}},
		"deep types":                        {"a.ts", "export function f(x: " + strings.Repeat("{a:", 3000) + "1" + strings.Repeat("}", 3000) + ") {}", []string{"a.ts"}},
		"a header that is none":             {"a.ts", "// toolroom:\n//   secrets: [\nexport function f() {}\n", []string{"a.ts:", "header"}},
		"an unknown key of the header":      {"a.ts", "// toolroom:\n//   secret: a\nexport function f() {}\n", []string{"a.ts:2:1", "secret"}},
		"an unknown key in Python":          {"a.py", "# /// script\n# [tool.toolroom]\n# secret = ['a/b']\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py:3:1", "secret", "did you mean secrets?"}},
		"a misspelt package list":           {"a.py", "# /// script\n# dependences = ['humanize']\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py:2:1", "dependences", "did you mean dependencies?"}},
		"a key outside of its table":        {"a.py", "# /// script\n# dependencies = []\n# read_only = true\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py:3:1", "read_only", "[tool.toolroom]"}},
		"a header's value of another type":  {"a.py", "# /// script\n# requires-python = '>=3.9'\n# dependencies = 'humanize'\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py:3:1", "dependencies in the header is of type string, and must be of type list"}},
		"a profile with a network":          {"a.ts", "// toolroom:\n//   profile: dev\nexport function f() {}\n", []string{"a.ts", "standard or hardened", "egress"}},
		"a negative limit":                  {"a.py", "# /// script\n# [tool.toolroom]\n# limits = {max_calls = -1}\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py", "a limit is negative"}},
		"a host with a scheme":              {"a.py", "# /// script\n# [tool.toolroom]\n# egress = ['example.com', 'http://example.com']\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py: egress[1]", "without scheme"}},
		"a secret with a blank":             {"a.py", "# /// script\n# [tool.toolroom]\n# secrets = ['no such']\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py", "not of the form scope/name"}},
		"an unknown limit in Python":        {"a.py", "# /// script\n# [tool.toolroom]\n# limits = {timeout = 5}\n# ///\ndef f(x: int) -> int:\n    return x\n", []string{"a.py:3:1", "limits.timeout"}},
		"a script without parameters":       {"a.sh", "#!/bin/sh\necho\n", []string{"a.sh:1:1", "declares no parameters"}},
		"a script without interpreter":      {"a.sh", "#!\n# toolroom:\n#   parameters: {}\n", []string{"a.sh:1:1", "no interpreter"}},
		"a parameter without a type":        {"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {x: nope}\n", []string{"a.sh", "parameter x"}},
		"a default that does not fit":       {"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {x: {type: integer, default: a}}\n", []string{"a.sh", "default of x"}},
		"an output of an unknown form":      {"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {}\n#   output: xml\n", []string{"a.sh", "xml"}},
		"a script with packages":            {"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {}\n#   dependencies: [x]\n", []string{"a.sh", "packages"}},
		"a file of an unknown language":     {"a.xyz", "f", []string{"a.xyz", "#!"}},
		"a case that is none":               {"a.ts", "// toolroom:\n//   cases: [{name: a, arguments: {x: 1}, assert: 'value >'}]\nexport function f(x: number) {}\n", []string{`case "a"`}},
		"a module that is not base64":       {"a.wasm", "?", []string{"a.wasm", "base64"}},
		"a module without a declaration":    {"a.wasm", "AGFzbQEAAAA=", []string{"a.wasm: it came without tool.yaml", "push the folder"}},
		"a default in JavaScript's doc":     {"a.js", "/** @param {number} [x=a] */\nexport function f(x) {}\n", []string{"a.js:2:19", "default of x"}},
		"a script without a shebang":        {"a.sh", "echo\n", []string{"a.sh", "language is not known", "#!"}},
		"a binary script":                   {"a.sh", "#!/bin/sh\n\x00\x01", []string{"a.sh:2:1", "UTF-8"}},
		"a huge script":                     {"a.sh", "#!/bin/sh\n#" + strings.Repeat("x", 1<<20), []string{"a.sh", "1 MiB"}},
		"a parameter without end":           {"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {x: {$ref: '#/x'}}\n", []string{"a.sh", "parameter x"}},
		"a reference that turns in circles": {"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters: {x: {$ref: '#'}}\n", []string{"a.sh", "parameter x"}},
		"a recursive type in Python":        {"a.py", "from typing import Union\nA = list['A']\ndef f(x: A) -> int:\n    return 1\n", []string{"a.py:3:7", "contains itself"}},
		"a type that is itself":             {"a.ts", "type A = A;\nexport function f(x: A) {}\n", []string{"a.ts:2:", "refers to itself"}},
		"a default not of the items":        {"a.py", "def f(x: list[int] = [1, 'b']): pass\n", []string{"a.py:1:", "default of x", "got string"}},
		"a default not of the values":       {"a.py", "def f(x: dict[str, int] = {'a': 'b'}): pass\n", []string{"a.py:1:", "default of x"}},
		"a default of a field":              {"a.py", "from dataclasses import dataclass\n\n@dataclass\nclass P:\n    x: int = 1\n    y: int = 'b'\n\ndef f(p: list[P]): pass\n", []string{"a.py:6:5", "default of P.y", "got string"}},
		"a default of a nested field":       {"a.py", "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass P:\n    x: list[int] = (1, 'b')\n\n@dataclass\nclass Q:\n    p: P | None = None\n\ndef f(q: Q): pass\n", []string{"a.py:5:5", "default of P.x", "got string"}},
		"a default of half a pair":          {"a.py", "def f(x: str = '\\ud800'): pass\n", []string{"a.py:1:7", "default of x", "surrogate"}},
		"a return outside":                  {"a.py", "def f(x: int): pass\nreturn 3\n", []string{"a.py:2:1", "does not parse"}},
		"an argument twice":                 {"a.py", "def f(x, x): pass\n", []string{"a.py:1:", "does not parse", "duplicate argument"}},
		"keys of a map that are not text":   {"a.ts", "export function f(x: Map<number, string>) {}\n", []string{"a.ts:1:22", "keys"}},
		"keys of a map that are dates":      {"a.ts", "export function f(x: Map<Date, string>) {}\n", []string{"a.ts:1:22", "keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.push(c.file, c.source)
			wantRefusal(t, err, c.want)
		})
	}
	t.Run("a module that does not compile", func(t *testing.T) {
		_, err := w.Parts().Releases.Push(t.Context(), release.Upload{Base: -1, Files: map[string]string{"a.wasm": "AGFzbQEAAAAB", "tool.yaml": "parameters: {}\n"}}, "ada")
		wantRefusal(t, err, []string{"a.wasm", "not a WebAssembly module that can run here"})
	})
	list, err := w.Parts().Releases.List(t.Context(), release.Filter{})
	if err != nil || len(list) != 0 {
		t.Errorf("something was stored: %v %v", list, err)
	}
}

// growingType returns a type whose parts double with each of n declarations.
func growingType(n int) string {
	var b strings.Builder
	b.WriteString("type A0 = {a: 1};\n")
	for i := range n {
		fmt.Fprintf(&b, "type A%d = {a: A%d; b: A%d};\n", i+1, i, i)
	}
	fmt.Fprintf(&b, "export function f(x: A%d) {}\n", n)
	return b.String()
}

func wantRefusal(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was accepted")
	}
	if code := toolroom.CodeOf(err); code != toolroom.CodeInvalidArguments && code != toolroom.CodeUnsupported {
		t.Errorf("code %s", code)
	}
	if toolroom.AsError(err).Hints() == "" {
		t.Errorf("%q says no next step", err)
	}
	for _, part := range want {
		if !strings.Contains(err.Error()+" "+toolroom.AsError(err).Hints(), part) {
			t.Errorf("%q is missing in %q, hint %q", part, err, toolroom.AsError(err).Hints())
		}
	}
}

func TestTwoToolsOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	two := "def a(x: int) -> int:\n    return 1\n\ndef b(x: int) -> int:\n    return 2\n"
	for _, manifest := range []string{
		"file: a.py\ntools: [{entry: a, name: same}, {entry: b, name: same}]\n",
		"file: a.py\ntools: [{entry: a}, {entry: a}]\n",
	} {
		_, err := w.Parts().Releases.Push(t.Context(), release.Upload{Base: -1, Files: map[string]string{"a.py": two, "tool.yaml": manifest}}, "ada")
		if toolroom.CodeOf(err) != toolroom.CodeConflict || !strings.Contains(err.Error(), "two functions are the tool") || !strings.Contains(toolroom.AsError(err).Hints(), "another name") {
			t.Errorf("%s: %v", manifest, err)
		}
	}
	one := func(file string) release.Upload {
		return release.Upload{Base: -1, File: file, Files: map[string]string{file: "def same(x: int) -> int:\n    return 1\n"}}
	}
	for _, dry := range []bool{true, false} {
		_, err := w.Parts().Releases.Sync(t.Context(), []release.Upload{one("one.py"), one("two.py")}, release.SyncOptions{DryRun: dry}, "ada")
		if toolroom.CodeOf(err) != toolroom.CodeConflict || !strings.Contains(err.Error(), "one.py and two.py are both the tool fn:same") {
			t.Errorf("sync of two files: %v", err)
		}
	}
}

func TestWhatCannotBeReleasedOrTakenBackSaysTheNextStep(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "")
	w.serve("half.py", halveSource)
	if _, err := w.push("half.py", brokenHalveSource); err != nil {
		t.Fatal(err)
	}
	s := w.Parts().Releases
	if err := s.Deprecate(t.Context(), "fn:half", 2, "it is wrong", false, "ada"); err != nil {
		t.Fatal(err)
	}
	rollback := func(environment string, to int) error {
		_, err := s.Rollback(t.Context(), "fn:half", environment, to, "", "ada")
		return err
	}
	_, released := s.Release(t.Context(), release.Order{Tool: "fn:half", Version: 2, Force: true}, "ada")
	_, unknown := s.Release(t.Context(), release.Order{Tool: "fn:half", Version: 9}, "ada")
	_, promoted := s.Promote(t.Context(), "fn:half", 0, release.Test, release.Prod, false, "ada")
	served := s.Deprecate(t.Context(), "fn:half", 1, "", false, "ada")
	never := rollback(release.Prod, 2)
	missing := rollback(release.Prod, 77)
	first := rollback(release.Prod, 0) // takes the first release back: then nothing is served
	for what, c := range map[string]struct {
		err         error
		says, hints string
	}{
		"a deprecated version is released":    {released, "is deprecated: it is wrong", "tool deprecate fn:half@2 --undo"},
		"no version is released":              {unknown, "no version 9", "tool show fn:half"},
		"nothing is promoted":                 {promoted, "nothing to promote", "tool release fn:half --env test"},
		"a served version is deprecated":      {served, "prod serves version 1", "tool rollback fn:half"},
		"back to what was never served":       {never, "has never served version 2", "tool release fn:half@2"},
		"back to what is not there":           {missing, "no version 77", "tool show fn:half"},
		"back from nothing":                   {rollback(release.Prod, 0), "nothing to roll back", "tool log fn:half"},
		"back in an environment without any":  {rollback(release.Test, 0), "nothing to roll back", "tool log fn:half"},
		"back in an environment of no config": {rollback("nope", 0), "there are prod, test", "releases.environments"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) || !strings.Contains(toolroom.AsError(c.err).Hints(), c.hints) {
			t.Errorf("%s: %v (%s)", what, c.err, toolroom.AsError(c.err).Hints())
		}
	}
	if first != nil {
		t.Error(first)
	}
	w.wantError("fn:half", `{"x":1}`, toolroom.CodeToolNotFound)
}

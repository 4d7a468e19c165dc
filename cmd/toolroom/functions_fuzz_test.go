package main

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

// fuzzInspector pushes texts, of which each becomes a version or an error of its author.
func fuzzInspector(f *testing.F, file string, seeds ...string) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	self, err := os.Executable()
	if err != nil {
		f.Fatal(err)
	}
	r, err := app.Open(f.Context(), app.Options{Home: f.TempDir(), Helper: self})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	f.Fuzz(func(t *testing.T, source string) {
		_, err := r.Parts().Releases.Push(t.Context(), release.Upload{Files: map[string]string{file: source}, File: file, Base: -1}, "ada")
		if err == nil {
			return
		}
		if code := toolroom.CodeOf(err); code != toolroom.CodeInvalidArguments && code != toolroom.CodeUnsupported {
			t.Errorf("code %s: %v", code, err)
		}
	})
}

func FuzzPythonInspector(f *testing.F) {
	fuzzInspector(f, "a.py", doubleSource, valuesSource,
		"import enum, typing\nclass A(enum.Enum):\n    X = object()\ndef f(a: A) -> typing.Literal[1.5]:\n    ...\n",
		"from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: 'A' = field(default_factory=lambda: 1 / 0)\ndef f(a: A = A(None)): pass\n",
		"class A(dict):\n    __required_keys__ = 3\ndef f(a: A): pass\n",
		"class M(type):\n    def __getattr__(self, name): raise SystemExit(name)\nclass A(metaclass=M): pass\ndef f(a: A) -> A: pass\n",
		"def f(a: 'x' * 10): '''\n    Args:\n      a (\n      :param a: x\n    '''\n", "__all__ = [f]\n", "__all__ = ['f']\nf = 1\n", "def f(a=float('nan')): pass\n", "def f(a: int = 10**400): pass\n",
	)
}

func FuzzTypeScriptInspector(f *testing.F) {
	fuzzInspector(f, "a.ts", "export function f(x: {a?: number, b: string[]} = {b: []}, ...rest: any): Promise<void> {}\n",
		"type A<T> = T extends (infer U)[] ? U : A<T[]>;\nexport const f = (x: A<string>) => x;\n", "enum E { A = 1 << 2, B = 'x', C = E.A }\nexport async function* f(e: E, d = -0n) { yield e }\n",
		"/** @param {x} @minimum NaN */ export default ({a = 1, b}: {a: number, b: Record<'x' | 'y', Date>}) => 1\n", "export = 1\n", "export * from './a'\n", "export {f as g} from './a';\n",
		"interface A extends A { [k: string]: A }\nexport function f(x: A & A): keyof A {}\n", "export function f(x: typeof f) {}\n", "// toolroom:\n//   {\nexport function f() {}\n", "export function f(x: `a${string}`) {}\n",
	)
}

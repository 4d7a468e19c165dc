package js_test

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/engine/js"
)

func TestABundleHasWhatTheToolReachesAndKnowsWhereItCameFrom(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"main.ts":     "import {twice} from './lib/math.js'\nimport data from './data.json'\nexport function f(x: number) {\n  return twice(x) + data.n\n}\nexport function unused() {}\n",
		"lib/math.ts": "export const twice = (x: number) => {\n  if (x < 0) throw new Error('negative')\n  return 2 * x\n}\n",
		"data.json":   `{"n": 1}`,
	}
	b, failure := js.NewBundle(files, "main.ts", "f", false, js.Packages{})
	if failure != nil {
		t.Fatal(failure)
	}
	if strings.Contains(b.Source, "unused") || !strings.HasPrefix(b.Source, `"use strict";`) {
		t.Errorf("the bundle:\n%s", b.Source)
	}
	before, _, ok := strings.Cut(b.Source, "throw")
	if !ok {
		t.Fatal(b.Source)
	}
	line, column := strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n')
	file, fromLine, fromColumn, ok := b.MapPosition(line, column)
	if !ok || file != "lib/math.ts" || fromLine != 2 || fromColumn != 14 {
		t.Errorf("%s:%d:%d %t", file, fromLine, fromColumn, ok)
	}
	if _, _, _, ok := b.MapPosition(strings.Count(b.Source, "\n")+2, 1); ok {
		t.Error("a position after the bundle has a place")
	}
}

func TestABundleThatCannotBeMadeNamesThePlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files        map[string]string
		file, says   string
		line, column int
	}{
		"syntax":         {map[string]string{"a.ts": "export function f() {\n"}, "a.ts", "Unexpected end", 2, 1},
		"no such file":   {map[string]string{"a.ts": "\nimport './b'\n"}, "a.ts", "no file b", 2, 8},
		"no such export": {map[string]string{"a.ts": "export const g = 1\n"}, "a.ts", "f", 0, 0},
		"a package":      {map[string]string{"a.ts": "import x from 'x'\nexport const f = x\n"}, "a.ts", `no module "x"`, 1, 15},
		"above":          {map[string]string{"a.ts": "import x from '../../etc/passwd.txt'\nexport const f = x\n"}, "a.ts", "no file", 1, 15},
		"deep":           {map[string]string{"a.ts": "export const f = " + strings.Repeat("[", 1000)}, "a.ts", "nests deeper", 1, 268},
	} {
		_, failure := js.NewBundle(c.files, "a.ts", "f", false, js.Packages{})
		if failure == nil {
			t.Errorf("%s: it was made", name)
			continue
		}
		if failure.File != c.file || !strings.Contains(failure.Message, c.says) || c.line > 0 && (failure.Line != c.line || failure.Column != c.column) {
			t.Errorf("%s: %s:%d:%d %s", name, failure.File, failure.Line, failure.Column, failure.Message)
		}
	}
}

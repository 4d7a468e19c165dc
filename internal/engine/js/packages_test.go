package js_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/engine/js"
)

func TestABundleTellsWhatItNeedsOfNode(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"node_modules/plain/package.json":      `{"main":"a.js"}`,
		"node_modules/plain/a.js":              "exports.a = () => typeof process === 'object' && process.env.X ? 1 : process_()\nfunction process_() { return 2 }\n",
		"node_modules/builtin/index.js":        "const fs = require('fs')\nexports.a = () => fs.x\n",
		"node_modules/global/index.js":         "exports.a = () => Buffer.from('x')\n",
		"node_modules/local/index.js":          "exports.a = (Buffer) => Buffer\n",
		"node_modules/beside/index.js":         "exports.a = () => __dirname\n",
		"node_modules/dynamic/index.js":        "exports.a = (x) => require(x)\n",
		"node_modules/native/index.js":         "module.exports = require('./x.node')\n",
		"node_modules/native/x.node":           "\x7fELF",
		"node_modules/above/index.js":          "module.exports = require('../../../secret.json')\n",
		"node_modules/through/index.js":        "exports.a = require('beside').a\n",
		"node_modules/@s/p/index.js":           "exports.a = () => 1\n",
		"node_modules/@s/p/lib/more.js":        "exports.a = () => 2\n",
		"node_modules/unused/package.json":     `{"sideEffects":false}`,
		"node_modules/unused/index.js":         "exports.a = () => setImmediate(1)\n",
		"node_modules/pretends/tsconfig.json":  `{"extends":"/etc/passwd"}`,
		"node_modules/pretends/index.js":       "exports.a = () => 1\n",
		"node_modules/two/node_modules/a/x.js": "exports.a = () => __filename\n",
		"node_modules/two/index.js":            "exports.a = require('a/x').a\n",
		"node_modules/esm/package.json":        `{"type":"module","exports":{"node":"./node.js","default":"./any.js"}}`,
		"node_modules/esm/node.js":             "import fs from 'node:fs'\nexport const a = () => fs.x\n",
		"node_modules/esm/any.js":              "export const a = () => 1\n",
		"node_modules/only/package.json":       `{"type":"module","exports":{".":{"import":"./a.js"},"./sub":{"default":"./b.cjs"}}}`,
		"node_modules/only/a.js":               "import fs from 'node:fs'\nexport const a = () => fs.x\n",
		"node_modules/only/b.cjs":              "exports.a = () => process.x\n",
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(folder), "secret.json"), []byte(`{"a":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		needs string // part of what a bundle for any engine needs of Node
		// bundled says that it is part of the bundle for Node.
		bundled bool
		leaves  bool   // it reads what is not a package, so it is in no bundle for any engine
		fails   string // part of the failure of a bundle for Node
	}{
		"plain": {}, "local": {}, "@s/p": {}, "@s/p/lib/more.js": {}, "pretends": {}, "esm": {}, "above": {leaves: true},
		"only": {needs: "it imports fs", bundled: true}, "only/sub": {needs: "it uses process"},
		"builtin": {needs: "it imports fs"},
		"global":  {needs: "it uses Buffer"},
		"unused":  {needs: "it uses setImmediate"},
		"beside":  {needs: "beside"},
		"dynamic": {needs: "dynamic"},
		"native":  {needs: "native"},
		"through": {needs: "beside"},
		"two":     {needs: "package a "},
		"absent":  {fails: `no module "absent"`},
	} {
		files := map[string]string{"a.ts": "import * as x from '" + name + "'\nexport const f = () => x.a()\n"}
		anywhere, failure := js.NewBundle(files, "a.ts", "f", false, js.Packages{Folder: folder})
		if c.leaves {
			if failure == nil || !strings.Contains(failure.Message, "outside of the packages") {
				t.Errorf("%s: %+v", name, failure)
			}
		} else if c.fails == "" && (anywhere == nil || failure != nil || (anywhere.NeedsNode == "") != (c.needs == "") || !strings.Contains(anywhere.NeedsNode, c.needs)) {
			t.Errorf("%s: %+v, needs %q", name, failure, anywhere.NeedsNode)
		}
		b, failure := js.NewBundle(files, "a.ts", "f", false, js.Packages{Folder: folder, Node: true})
		if failure != nil {
			if c.fails == "" || !strings.Contains(failure.Message, c.fails) {
				t.Errorf("%s: %s", name, failure.Message)
			}
			continue
		}
		if c.fails != "" || c.bundled != (len(b.Externals) == 0) || !c.bundled && b.Externals[0] != name || strings.Contains(b.Source, "__toolroom_node_") {
			t.Errorf("%s: externals %q, source:\n%s", name, b.Externals, b.Source)
		}
	}
}

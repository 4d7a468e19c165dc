package main

import (
	"archive/tar"
	"compress/gzip"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

// requireNPM skips a test if there is no npm.
func requireNPM(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("there is no npm")
	}
}

// tarball writes an npm package into a folder.
func tarball(t *testing.T, folder, name string, files map[string]string) {
	t.Helper()
	out, err := os.Create(filepath.Join(folder, name+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(out)
	archive := tar.NewWriter(z)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: "package/" + file, Mode: 0o644, Size: int64(len(files[file]))}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(files[file])); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []func() error{archive.Close, z.Close, out.Close} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
}

// newPackageFolder returns a folder of npm packages: up counts its calls and needs nothing, reader
// reads the file beside it, scripted has an install script, and wanting needs what is not
// there.
func newPackageFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	tarball(t, folder, "up-1.0.0", map[string]string{
		"package.json": `{"name":"@ours/up","version":"1.0.0","main":"index.js"}`, "index.js": "let calls = 0\nexports.up = () => ++calls\n",
	})
	tarball(t, folder, "up-2.0.0", map[string]string{
		"package.json": `{"name":"@ours/up","version":"2.0.0","main":"index.js"}`, "index.js": "let calls = 0\nexports.up = () => ++calls * 100\n",
	})
	tarball(t, folder, "reader", map[string]string{
		"package.json": `{"name":"reader","version":"0.1.0","dependencies":{"@ours/up":"^2"}}`, "data.txt": "beside it",
		"index.js": "const fs = require('fs'), path = require('path'), {up} = require('@ours/up')\nexports.read = () => fs.readFileSync(path.join(__dirname, 'data.txt'), 'utf8') + ' ' + up()\n",
	})
	tarball(t, folder, "scripted", map[string]string{
		"package.json": `{"name":"scripted","version":"1.0.0","scripts":{"postinstall":"touch /tmp/toolroom-ran-a-script"}}`, "index.js": "exports.x = 1\n",
	})
	tarball(t, folder, "wanting", map[string]string{"package.json": `{"name":"wanting","version":"1.0.0","dependencies":{"absent-of-ours":"1"}}`, "index.js": ""})
	return folder
}

func pushFiles(w workshop, files map[string]string, file, tarballs string) ([]release.Pushed, error) {
	w.t.Helper()
	return w.Parts().Releases.Push(w.t.Context(), release.Upload{Files: files, File: file, Base: -1, Tarballs: tarballs}, "ada")
}

const packagedTool = `// toolroom:
//   dependencies: ["@ours/up@^1", reader]
import {up} from "@ours/up";
import {read} from "reader";
import fs from "node:fs";
import path from "path";

let calls = 0;

/** Uses a package that reads its own files, and that has another version of up. */
export function node(): string { return read() + " " + up() }

/** Leaves what it can, and tells what it finds. */
export function leave(): string {
  const found = [++calls, up(), process.env.LEFT ?? "", (globalThis as any).left ?? ""];
  process.env.LEFT = "1";
  (globalThis as any).left = 1;
  for (const folder of [process.cwd(), "/tmp", "/run/layer"]) {
    const file = path.join(folder, "left");
    found.push(fs.existsSync(file) ? folder : "");
    try { fs.writeFileSync(file, "x") } catch (e: any) { if (folder === "/run/layer") found.push(e.code) }
  }
  return found.join();
}
`

const pureTool = `import {up} from "@ours/up"
import {join} from "node:path"

/** Uses a package that needs nothing.
 * @returns {number} */
export function pure() { return up() }
`

func TestNPMPackagesFromAFolderNeedNoRegistryAndKeepNoState(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	w := newWorkshop(t, "")
	tarballs := newPackageFolder(t)
	pushed, err := pushFiles(w, map[string]string{"a.ts": packagedTool}, "a.ts", tarballs)
	if err != nil {
		t.Fatal(err)
	}
	more, err := pushFiles(w, map[string]string{"pure.js": pureTool, "package.json": `{"dependencies": {"@ours/up": "^1"}}`}, "pure.js", tarballs)
	if err != nil {
		t.Fatal(err)
	}
	pushed = append(pushed, more...)
	for _, p := range pushed {
		wantNode := p.Tool != "fn:pure"
		if p.Spec.Node != wantNode || p.Spec.Layer == "" || !strings.Contains(p.Spec.Lock, "sha512-") || strings.Contains(p.Spec.Lock, "127.0.0.1") {
			t.Errorf("%s: node %t, layer %q, lock:\n%s", p.Tool, p.Spec.Node, p.Spec.Layer, p.Spec.Lock)
		}
		if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: p.Tool}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		w.wantValue("fn:pure", `{}`, "1")
		w.wantValue("fn:node", `{}`, `"beside it 100 1"`)
		w.wantValue("fn:leave", `{}`, `"1,1,,,,,,EROFS"`)
	}
	for tool, engine := range map[string]string{"fn:pure": "js", "fn:node": "process"} {
		r := w.call(tool, `{}`)
		if r.Execution == nil || r.Execution.Engine != engine {
			t.Errorf("%s ran on %+v", tool, r.Execution)
		}
		got, err := w.Receipt(t.Context(), r.Call)
		spec := pushed[0].Spec
		if tool == "fn:pure" {
			spec = more[0].Spec
		}
		if err != nil || got.Release == nil || got.Release.Layer != spec.Layer || got.Release.Lock != spec.LockDigest() {
			t.Errorf("the receipt of %s: %+v %v", tool, got, err)
		}
	}
	// The same again makes no version, and a layer that is gone is made again without the folder.
	again, err := pushFiles(w, map[string]string{"a.ts": packagedTool}, "a.ts", tarballs)
	if err != nil || again[0].Created {
		t.Errorf("pushed again: %+v %v", again, err)
	}
	for _, folder := range []string{filepath.Join(w.Home(), "packages", "layers", pushed[0].Spec.Layer), tarballs} {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
	}
	w.wantValue("fn:node", `{}`, `"beside it 100 1"`)
}

func TestNPMPackagesThatAreNotSafeOrNotThereAreRefused(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	w := newWorkshop(t, "")
	tarballs := newPackageFolder(t)
	source := func(requires, imports string) map[string]string {
		return map[string]string{"b.js": "// toolroom:\n//   dependencies: [" + requires + "]\nimport * as x from '" + imports + "'\n/** B.\n * @returns {number} */\nexport function b() { return x.x }\n"}
	}
	with := func(files map[string]string, lock string) map[string]string {
		files["package-lock.json"] = lock
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		code  toolroom.Code
		want  string
	}{
		"an install script":        {source("scripted", "scripted"), toolroom.CodeDenied, "scripted 1.0.0 has an install script"},
		"nothing of this name":     {source("nothing-of-ours", "nothing-of-ours"), toolroom.CodeInvalidArguments, "nothing-of-ours"},
		"no such version":          {source("'@ours/up@7'", "@ours/up"), toolroom.CodeInvalidArguments, "@ours/up@7"},
		"a dependency is missing":  {source("wanting", "wanting"), toolroom.CodeInvalidArguments, "absent-of-ours"},
		"a repository":             {source("'x@git+https://example.com/x'", "x"), toolroom.CodeInvalidArguments, "not a package of a registry"},
		"a folder":                 {source("'x@file:/etc'", "x"), toolroom.CodeInvalidArguments, "not a package of a registry"},
		"an option":                {source("'--global'", "x"), toolroom.CodeInvalidArguments, "not a package of a registry"},
		"an undeclared package":    {source("'@ours/up'", "lodash"), toolroom.CodeInvalidArguments, "lodash"},
		"a lock without integrity": {with(source("'@ours/up@1.0.0'", "@ours/up"), `{"lockfileVersion":3,"packages":{"":{"dependencies":{"@ours/up":"1.0.0"}},"node_modules/@ours/up":{"version":"1.0.0"}}}`), toolroom.CodeDenied, "@ours/up 1.0.0 has no integrity"},
		"a lock of other content":  {with(source("'@ours/up@1.0.0'", "@ours/up"), `{"lockfileVersion":3,"packages":{"":{"name":"tool","version":"0.0.0","dependencies":{"@ours/up":"1.0.0"}},"node_modules/@ours/up":{"version":"1.0.0","resolved":"https://registry.npmjs.org/@ours/up/-/up-1.0.0.tgz","integrity":"sha512-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}}}`), toolroom.CodeDenied, "nothing was installed"},
		"a lock of other packages": {with(source("'@ours/up@2.0.0'", "@ours/up"), `{"lockfileVersion":3,"packages":{"":{}}}`), toolroom.CodeInvalidArguments, "cannot be installed"},
		"a lock that links":        {with(source("'@ours/up'", "@ours/up"), `{"lockfileVersion":3,"packages":{"node_modules/@ours/up":{"resolved":"../../etc","link":true}}}`), toolroom.CodeDenied, "no integrity"},
	} {
		_, err := pushFiles(w, c.files, "b.js", tarballs)
		if toolroom.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if layers, _ := filepath.Glob(filepath.Join(w.Home(), "packages", "layers", "making-*")); len(layers) > 0 {
		t.Errorf("left behind: %v", layers)
	}
	if _, err := os.Stat("/tmp/toolroom-ran-a-script"); err == nil {
		t.Error("an install script ran")
	}
}

func TestNPMPackagesFromTheRegistryRunWhereTheyCan(t *testing.T) {
	t.Parallel()
	requireIndexes(t)
	requireNPM(t)
	w := newWorkshop(t, "")
	pushed, err := pushFiles(w, map[string]string{
		"package.json": `{"dependencies": {"graceful-fs": "^4", "@node-rs/crc32": "^1"}}`,
		"main.ts": "import gfs from 'graceful-fs';\nimport {crc32} from '@node-rs/crc32';\n" +
			"/** Files. */\nexport function files(): string { gfs.writeFileSync('a.txt', 'text'); return gfs.readFileSync('a.txt', 'utf8') }\n" +
			"/** Native code. */\nexport function sum(text: string): number { return crc32(text) }\n",
	}, "main.ts", "")
	if err != nil {
		t.Fatal(err)
	}
	more, err := pushFiles(w, map[string]string{
		"newer.ts": "// toolroom:\n//   dependencies: [semver@^7]\nimport semver from 'semver';\n/** Newer. */\nexport function newer(a: string, b: string): boolean { return semver.gt(a, b) }\n",
	}, "newer.ts", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(pushed, more...) {
		if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: p.Tool}, "ada"); err != nil {
			t.Fatal(err)
		}
	}
	for tool, c := range map[string]struct{ arguments, want, engine string }{
		"fn:newer": {`{"a":"1.10.0","b":"1.9.9"}`, "true", "js"},
		"fn:files": {`{}`, `"text"`, "process"},
		"fn:sum":   {`{"text":"hello"}`, "907060870", "process"},
	} {
		w.wantValue(tool, c.arguments, c.want)
		if r := w.call(tool, c.arguments); r.Execution == nil || r.Execution.Engine != c.engine {
			t.Errorf("%s ran on %+v", tool, r.Execution)
		}
	}
}

// requireIndexes skips a test if PyPI and npm's registry are not to be used.
func requireIndexes(t *testing.T) {
	t.Helper()
	if os.Getenv("TOOLROOM_TEST_PYPI") == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("TOOLROOM_TEST_PYPI is not set")
		}
		t.Skip("TOOLROOM_TEST_PYPI is not set")
	}
}

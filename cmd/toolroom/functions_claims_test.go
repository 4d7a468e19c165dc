package main

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

// integrityOf returns the integrity of a tarball of a folder, as a lock has it.
func integrityOf(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(text)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func toolThatImports(name string) string {
	return "// toolroom:\n//   dependencies: [\"" + name + "\"]\nimport * as p from 'p'\n/** B.\n * @returns {number} */\nexport function b() { return p.x }\n"
}

const scriptedPackageJSON = `{"name":"scripted","version":"1.0.0","scripts":{"postinstall":"node make.js"}}`

func TestAnInstallScriptOfARenamedPackageRuns(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	w := newWorkshop(t, buildConfig("", "npm:scripted"))
	tarballs := t.TempDir()
	tarball(t, tarballs, "scripted", map[string]string{"package.json": scriptedPackageJSON, "index.js": "exports.x = 1\n", "make.js": "require('fs').writeFileSync('index.js', 'exports.x = 42')\n"})
	pushed, err := pushFiles(w, map[string]string{"b.js": toolThatImports("p@npm:scripted@1.0.0")}, "b.js", tarballs)
	if err != nil {
		t.Fatal(err)
	}
	if len(pushed[0].Spec.Built) != 1 {
		t.Errorf("built %v", pushed[0].Spec.Built)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:b"}, "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:b", `{}`, "42")
}

// An author writes the lock, which says of any file that it is a package that may be built.
func TestALockCannotPassAFileForAPackageThatMayBeBuilt(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	w := newWorkshop(t, buildConfig("", "npm:scripted"))
	tarballs, elsewhere := t.TempDir(), t.TempDir()
	tarball(t, tarballs, "scripted", map[string]string{"package.json": scriptedPackageJSON, "index.js": "exports.x = 1\n", "make.js": ""})
	tarball(t, elsewhere, "scripted", map[string]string{"package.json": scriptedPackageJSON, "index.js": "exports.x = 1\n", "make.js": "require('fs').writeFileSync('index.js', 'exports.x = 666')\n"})
	server := httptest.NewServer(http.FileServer(http.Dir(elsewhere)))
	defer server.Close()
	lock := fmt.Sprintf(`{"lockfileVersion":3,"packages":{"":{"name":"tool","version":"0.0.0","dependencies":{"p":"npm:scripted@1.0.0"}},
"node_modules/p":{"name":"scripted","version":"1.0.0","resolved":"%s/scripted.tgz","integrity":%q,"hasInstallScript":true}}}`, server.URL, integrityOf(t, elsewhere, "scripted"))
	_, err := pushFiles(w, map[string]string{"b.js": toolThatImports("p@npm:scripted@1.0.0"), "package-lock.json": lock}, "b.js", tarballs)
	if toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Error(err)
	}
}

// What a lock hides from the list of packages must not get into the layer, whose digest is that
// of the list: another tool may have the same.
func TestALockCannotHideAPackage(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	folder := t.TempDir()
	tarball(t, folder, "p", map[string]string{"package.json": `{"name":"p","version":"1.0.0"}`, "index.js": "exports.x = 1; try { exports.x = require('q').x } catch {}\n"})
	tarball(t, folder, "q", map[string]string{"package.json": `{"name":"q","version":"1.0.0"}`, "index.js": "exports.x = 666\n"})
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer server.Close()
	w := newWorkshop(t, "")
	for _, c := range []struct {
		ofP, at, ofQ string
		want         toolroom.Code
	}{
		{``, "node_modules/q", `"inBundle":true`, toolroom.CodeDenied},
		{``, "node_modules/q", `"dev":true`, toolroom.CodeDenied},
		// npm believes that q came with p, and fetches nothing.
		{`,"bundleDependencies":["q"]`, "node_modules/p/node_modules/q", `"inBundle":true`, ""},
	} {
		lock := fmt.Sprintf(`{"lockfileVersion":3,"packages":{"":{"name":"tool","version":"0.0.0","dependencies":{"p":"*"}},
"node_modules/p":{"version":"1.0.0","resolved":"%s/p.tgz","integrity":%q,"dependencies":{"q":"*"}%s},
%q:{"version":"1.0.0","resolved":"%s/q.tgz",%s}}}`, server.URL, integrityOf(t, folder, "p"), c.ofP, c.at, server.URL, c.ofQ)
		_, err := pushFiles(w, map[string]string{"b.js": toolThatImports("p"), "package-lock.json": lock}, "b.js", "")
		if found, _ := filepath.Glob(filepath.Join(w.Home(), "packages", "layers", "*", c.at, "index.js")); len(found) > 0 || toolroom.CodeOf(err) != c.want {
			t.Errorf("%v: %v, and %v", c, err, found)
		}
	}
}

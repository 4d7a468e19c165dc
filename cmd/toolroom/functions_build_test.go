package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

// newBuildWorkshop returns a workshop that may build packages, within small limits.
func newBuildWorkshop(t *testing.T, limits string, packages ...string) workshop {
	t.Helper()
	return newWorkshop(t, buildConfig(limits, packages...), pathWithUV(t))
}

func buildConfig(limits string, packages ...string) string {
	return fmt.Sprintf("releases: {packages: {build: [\"%s\"], build_limits: {%s}}}\n", strings.Join(packages, `", "`), limits)
}

// sdist writes a source distribution, which its own backend builds, into a folder. The
// function build of the backend makes a wheel of members.
func sdist(t *testing.T, folder, name, backend string) {
	t.Helper()
	out, err := os.Create(filepath.Join(folder, name+"-1.0.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(out)
	archive := tar.NewWriter(z)
	files := map[string]string{
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n",
		"backend.py":     strings.ReplaceAll(customBackend, "NAME", name) + backend,
		// Without static metadata: locking would have to run the backend.
		"PKG-INFO": "Metadata-Version: 1.0\nName: " + name + "\nVersion: 1.0\n",
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := archive.WriteHeader(&tar.Header{Name: name + "-1.0/" + file, Mode: 0o644, Size: int64(len(files[file]))}); err != nil {
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

const customBackend = `
import os, socket, subprocess, sys, time, zipfile

def build(folder, name="NAME", said="NAME", requires=(), **members):
    file = name + "-1.0-py3-none-any.whl"
    info = name + "-1.0.dist-info/"
    members = {"NAME.py": "def answer(): return 42\n", info + "WHEEL": "Wheel-Version: 1.0\nGenerator: ours\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: " + said + "\nVersion: 1.0\n" + "".join("Requires-Dist: " + r + "\n" for r in requires), info + "RECORD": "", **members}
    with zipfile.ZipFile(os.path.join(folder, file), "w") as z:
        for member, text in members.items():
            z.writestr(zipfile.ZipInfo(member), text)
    return file

def build_wheel(folder, settings=None, metadata=None):
    attack()
    return build(folder)
`

func pushRequirement(w workshop, folder, requirement string) ([]release.Pushed, error) {
	w.t.Helper()
	return pushWith(w.t, w.App, "# /// script\n# dependencies = [\""+requirement+"\"]\n# ///\nimport "+requirement+"\n\ndef a() -> int:\n    return "+requirement+".answer()\n", folder)
}

func TestASourceDistributionIsBuiltInASandboxIfTheConfigNamesIt(t *testing.T) {
	t.Parallel()
	w := newBuildWorkshop(t, "", "pypi:ours", "pypi:inner", "pypi:absent")
	folder := t.TempDir()
	// The first needs the second, which only its wheel says; both must be built.
	sdist(t, folder, "ours", "\ndef attack(): pass\ndef build_wheel(folder, settings=None, metadata=None): return build(folder, requires=['inner>=1'])\n")
	sdist(t, folder, "inner", "\ndef attack(): pass\n")
	pushed, err := pushRequirement(w, folder, "ours")
	if err != nil {
		t.Fatal(err)
	}
	spec := pushed[0].Spec
	if len(spec.Built) != 2 || !strings.HasPrefix(spec.Built[0], "pypi:ours 1.0 from sha256:") || !strings.HasPrefix(spec.Built[1], "pypi:inner 1.0 from sha256:") {
		t.Errorf("built %v", spec.Built)
	}
	if strings.Contains(spec.Lock, "file:///tmp/toolroom") || strings.Count(spec.Lock, `"built:`) != 2 {
		t.Errorf("the lock:\n%s", spec.Lock)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:a", `{}`, "42")
	r := w.call("fn:a", `{}`)
	if got, err := w.Receipt(t.Context(), r.Call); err != nil || got.Release == nil || !slices.Equal(got.Release.Built, spec.Built) {
		t.Errorf("the receipt: %+v %v", got, err)
	}
	if again, err := pushRequirement(w, folder, "ours"); err != nil || again[0].Created {
		t.Errorf("pushed again: %+v %v", again, err)
	}
	// What is gone is built again, from the same source distribution, and compared.
	packages := filepath.Join(w.Home(), "packages")
	if err := os.RemoveAll(packages); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:a", `{}`, "42")
	if found, _ := filepath.Glob(filepath.Join(packages, "layers", spec.Layer, "*.py")); len(found) != 2 {
		t.Errorf("restored %v", found)
	}
}

func TestASourceDistributionThatTheConfigDoesNotNameIsRefused(t *testing.T) {
	t.Parallel()
	w := newBuildWorkshop(t, "", "pypi:other", "npm:ours")
	folder := t.TempDir()
	sdist(t, folder, "ours", "\ndef attack(): pass\n")
	_, err := pushRequirement(w, folder, "ours")
	if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(toolroom.AsError(err).Hint, `releases: {packages: {build: ["pypi:ours"]}}`) {
		t.Errorf("%v", toolroom.AsError(err))
	}
	// What a named package needs is not thereby allowed.
	sdist(t, folder, "other", "\ndef attack(): pass\ndef build_wheel(folder, settings=None, metadata=None): return build(folder, requires=['ours'])\n")
	if _, err := pushRequirement(w, folder, "other"); !strings.Contains(fmt.Sprint(err), "ours") || toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("its dependency: %v", err)
	}
}

func TestABuildReachesNothingAndItsResultIsNotTrusted(t *testing.T) {
	t.Parallel()
	secret, outside, host, port := forbiddenTargets(t)
	w := newBuildWorkshop(t, "disk: 33554432", "pypi:evil")
	for name, c := range map[string]struct {
		backend string
		code    toolroom.Code
		want    string
	}{
		"reads a file of the host": {fmt.Sprintf("def attack(): open(%q).read()", secret), toolroom.CodeExecutionFailed, "No such file"},
		"reads the environment":    {"def attack(): sys.exit('found ' + repr([k for k in os.environ if 'SECRET' in k or 'TOKEN' in k]) + ' in ' + os.path.expanduser('~'))", toolroom.CodeExecutionFailed, "found [] in /work"},
		"writes outside":           {fmt.Sprintf("def attack(): open(%q, 'w').write('x')", outside), toolroom.CodeExecutionFailed, "evil 1.0 failed in its sandbox"},
		"opens the network":        {fmt.Sprintf("def attack(): socket.create_connection((%q, %s), 2)", host, port), toolroom.CodeExecutionFailed, "evil 1.0 failed in its sandbox"},
		"fills the disk":           {"def attack():\n    with open('/tmp/f', 'wb') as f:\n        while True: f.write(b'x' * 1048576)", toolroom.CodeExecutionFailed, "No space left"},
		"another name":             {"def build_wheel(folder, *a): return build(folder, name='pip')", toolroom.CodeDenied, "another package or version"},
		"another name inside":      {"def build_wheel(folder, *a): return build(folder, said='pip')", toolroom.CodeDenied, "says that it is pip 1.0"},
		"a member above":           {"def build_wheel(folder, *a): return build(folder, **{'../../above.py': 'x'})", toolroom.CodeDenied, "no plain file inside"},
		"a member above of data":   {"def build_wheel(folder, *a): return build(folder, **{'evil-1.0.data/purelib/../../../above.py': 'x'})", toolroom.CodeDenied, "no plain file inside"},
		"no zip file":              {"def build_wheel(folder, *a):\n    file = 'evil-1.0-py3-none-any.whl'\n    open(os.path.join(folder, file), 'w').write('x')\n    return file", toolroom.CodeDenied, "not a zip file"},
		"a name with a path":       {"def attack():\n    for fd in range(3, 20):\n        try: os.write(fd, b'../../evil-1.0-py3-none-any.whl\\nPK')\n        except OSError: pass\n    os._exit(0)", toolroom.CodeDenied, "no name of a wheel"},
		"nothing":                  {"def attack(): os._exit(0)", toolroom.CodeDenied, "no name of a wheel"},
		"needs a folder":           {"def get_requires_for_build_wheel(settings): return ['pip @ file:///etc']", toolroom.CodeDenied, "no package of an index"},
		"needs an option":          {"def get_requires_for_build_wheel(settings): return ['--index-url=http://x']", toolroom.CodeDenied, "no package of an index"},
		"no list of needs":         {"def get_requires_for_build_wheel(settings): os._exit(0)", toolroom.CodeDenied, "something else than what it needs"},
		"fails to import":          {"raise RuntimeError('on import')", toolroom.CodeExecutionFailed, "on import"},
	} {
		folder := t.TempDir()
		sdist(t, folder, "evil", "\n"+c.backend+"\n")
		_, err := pushRequirement(w, folder, "evil")
		if toolroom.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %s %v", name, toolroom.CodeOf(err), err)
		}
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("a build wrote outside of its sandbox")
	}
	if layers, _ := filepath.Glob(filepath.Join(w.Home(), "packages", "wheels", "*.whl")); len(layers) > 0 {
		t.Errorf("kept: %v", layers)
	}
}

func TestABuildEndsWithEverythingThatItStarted(t *testing.T) {
	t.Parallel()
	w, short := newBuildWorkshop(t, "", "pypi:forks"), newBuildWorkshop(t, "timeout: 3s", "pypi:endless")
	folder := t.TempDir()
	const mark = "86413.2718"
	sdist(t, folder, "forks", "\ndef attack(): subprocess.Popen(['sleep', '"+mark+"'], start_new_session=True)\n")
	sdist(t, folder, "endless", "\ndef attack():\n    subprocess.Popen(['sleep', '"+mark+"'], start_new_session=True)\n    while True: pass\n")
	if _, err := pushRequirement(w, folder, "forks"); err != nil {
		t.Error(err)
	}
	if _, err := pushRequirement(short, folder, "endless"); toolroom.CodeOf(err) != toolroom.CodeTimeout || !strings.Contains(fmt.Sprint(err), "the build of endless 1.0 did not end within 3s") {
		t.Error(err)
	}
	least := newBuildWorkshop(t, "timeout: 500us", "pypi:endless") // less than the least limit of a sandbox
	if _, err := pushRequirement(least, folder, "endless"); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Error(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, one := range all {
		if text, _ := os.ReadFile(one); strings.Contains(string(text), mark) {
			t.Errorf("%s runs on: %q", one, text)
		}
	}
}

func TestNothingIsBuiltWithoutTheSandbox(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(config, []byte(buildConfig("", "pypi:ours")), 0o600); err != nil {
		t.Fatal(err)
	}
	bare, err := app.Open(t.Context(), app.Options{Home: t.TempDir(), ConfigFile: config, Environ: environ(pathWithUV(t))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bare.Close() })
	folder := t.TempDir()
	sdist(t, folder, "ours", "\ndef attack(): pass\n")
	if _, err := pushRequirement(workshop{bare, t}, folder, "ours"); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(fmt.Sprint(err), "nothing was built") {
		t.Error(err)
	}
}

func TestASourceDistributionOfTheIndexIsBuilt(t *testing.T) {
	t.Parallel()
	requireIndexes(t)
	w := newBuildWorkshop(t, "", "pypi:docopt")
	pushed, err := pushWith(t, w.App, "# /// script\n# dependencies = [\"docopt==0.6.2\"]\n# ///\nimport docopt\n\ndef a(line: str) -> dict:\n    return dict(docopt.docopt('Usage: x [--all]', line.split()))\n", "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"pypi:docopt 0.6.2 from sha256:49b3a825280bd66b3aa83585ef59c4a8c82f2c8a522dbe754a8bc8d08c85c491"}; !slices.Equal(pushed[0].Spec.Built, want) {
		t.Errorf("built %v", pushed[0].Spec.Built)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:a", `{"line":"--all"}`, `{"--all":true}`)
}

func TestAnInstallScriptRunsInASandboxIfTheConfigNamesIt(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	w := newWorkshop(t, buildConfig("", "npm:scripted"))
	tarballs := t.TempDir()
	tarball(t, tarballs, "scripted", map[string]string{
		"package.json": `{"name":"scripted","version":"1.0.0","scripts":{"postinstall":"node make.js"}}`,
		"index.js":     "exports.x = require('./made/answer.js').answer\n", "old.js": "old",
		"make.js": "const fs = require('fs'); fs.mkdirSync('made'); fs.writeFileSync('made/answer.js', 'exports.answer = 42'); fs.symlinkSync('/etc/passwd', 'made/link'); fs.writeFileSync('../neighbour/index.js', 'exports.y = 7'); console.log('noise')\n",
	})
	tarball(t, tarballs, "neighbour", map[string]string{"package.json": `{"name":"neighbour","version":"1.0.0"}`, "index.js": "exports.y = 1\n"})
	files := map[string]string{"b.js": "// toolroom:\n//   dependencies: [scripted, neighbour]\nimport * as s from 'scripted'\nimport * as n from 'neighbour'\n/** B.\n * @returns {number} */\nexport function b() { return s.x + n.y }\n"}
	pushed, err := pushFiles(w, files, "b.js", tarballs)
	if err != nil {
		t.Fatal(err)
	}
	spec := pushed[0].Spec
	if len(spec.Built) != 1 || !strings.HasPrefix(spec.Built[0], "npm:scripted 1.0.0 from sha512-") {
		t.Errorf("built %v", spec.Built)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:b"}, "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:b", `{}`, "43") // what it wrote into another package does not count
	if again, err := pushFiles(w, files, "b.js", tarballs); err != nil || again[0].Created {
		t.Errorf("pushed again: %+v %v", again, err)
	}
	// An author cannot claim that a script ran.
	claimed := maps.Clone(files)
	claimed["package-lock.json"] = spec.Lock
	refusing := newWorkshop(t, "")
	if _, err := pushFiles(refusing, claimed, "b.js", tarballs); toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.Contains(toolroom.AsError(err).Hint, `build: ["npm:scripted"]`) {
		t.Errorf("a lock that claims it: %v", err)
	}
	for _, gone := range []string{"layers", "wheels", "built"} { // npm keeps the tarballs
		if err := os.RemoveAll(filepath.Join(w.Home(), "packages", gone)); err != nil {
			t.Fatal(err)
		}
	}
	w.wantValue("fn:b", `{}`, "43")
	if _, err := os.Stat(filepath.Join(w.Home(), "packages", "layers", spec.Layer, "node_modules", "scripted", "made", "answer.js")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(w.Home(), "packages", "layers", spec.Layer, "node_modules", "scripted", "made", "link")); err == nil {
		t.Error("a link came out of the sandbox")
	}
}

// npm builds native code without a script of the package's own, and registries do not tell of it.
func TestNativeCodeIsBuiltInASandboxIfTheConfigNamesIt(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	for _, needed := range []string{"/usr/include/node/node_api.h", "/usr/bin/make", "/usr/bin/cc", "/usr/bin/c++"} {
		if _, err := os.Stat(needed); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	w := newWorkshop(t, buildConfig("", "npm:native"))
	tarballs := t.TempDir()
	tarball(t, tarballs, "native", map[string]string{
		"package.json": `{"name":"native","version":"1.0.0"}`, "index.js": "exports.answer = require('./build/Release/native.node').answer\n",
		"binding.gyp": `{"targets": [{"target_name": "native", "sources": ["native.c"]}]}`,
		"native.c": "#include <node_api.h>\nstatic napi_value answer(napi_env env, napi_callback_info info) { napi_value v; napi_create_int32(env, 42, &v); return v; }\n" +
			"NAPI_MODULE_INIT() { napi_value f; napi_create_function(env, \"answer\", NAPI_AUTO_LENGTH, answer, NULL, &f); napi_set_named_property(env, exports, \"answer\", f); return exports; }\n",
	})
	files := map[string]string{"b.js": "// toolroom:\n//   dependencies: [native]\nimport * as n from 'native'\n/** B.\n * @returns {number} */\nexport function b() { return n.answer() }\n"}
	pushed, err := pushFiles(w, files, "b.js", tarballs)
	if err != nil {
		t.Fatal(err)
	}
	spec := pushed[0].Spec
	const told = `"hasInstallScript": true`
	if len(spec.Built) != 1 || !strings.HasPrefix(spec.Built[0], "npm:native 1.0.0 from sha512-") || !strings.Contains(spec.Lock, told) {
		t.Errorf("built %v with the lock %s", spec.Built, spec.Lock)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:b"}, "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:b", `{}`, "42")
	files["package-lock.json"] = strings.ReplaceAll(spec.Lock, told, `"license": "x"`)
	if again, err := pushFiles(w, files, "b.js", tarballs); err != nil || !slices.Equal(again[0].Spec.Built, spec.Built) {
		t.Errorf("with a lock that does not tell of it: %+v %v", again, err)
	}
	// Another machine builds the same.
	delete(files, "package-lock.json")
	if other, err := pushFiles(newWorkshop(t, buildConfig("", "npm:native")), files, "b.js", tarballs); err != nil || other[0].Spec.Layer != spec.Layer {
		t.Errorf("built twice: %+v %v, and before %s", other, err, spec.Layer)
	}
	files["package-lock.json"] = strings.ReplaceAll(spec.Lock, told, `"license": "x"`)
	if _, err := pushFiles(newWorkshop(t, ""), files, "b.js", tarballs); toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.Contains(toolroom.AsError(err).Hint, `build: ["npm:native"]`) {
		t.Errorf("without a word in the config: %v", err)
	}
}

func TestWhatNPMLeavesOutNeedsNoInstallScript(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	tarballs := t.TempDir()
	tarball(t, tarballs, "plain", map[string]string{"package.json": `{"name":"plain","version":"1.0.0","optionalDependencies":{"unfit":"1"}}`, "index.js": "exports.x = 42\n"})
	tarball(t, tarballs, "unfit", map[string]string{"package.json": `{"name":"unfit","version":"1.0.0","engines":{"node":">=9999"},"scripts":{"install":"exit 1"}}`})
	for _, config := range []string{"", buildConfig("", "npm:unfit")} {
		pushed, err := pushFiles(newWorkshop(t, config), map[string]string{"b.js": "// toolroom:\n//   dependencies: [plain]\nimport * as p from 'plain'\n/** B.\n * @returns {number} */\nexport function b() { return p.x }\n"}, "b.js", tarballs)
		if err != nil || len(pushed[0].Spec.Built) > 0 {
			t.Errorf("%q: %+v %v", config, pushed, err)
		}
	}
}

func TestAnInstallScriptReachesNothing(t *testing.T) {
	t.Parallel()
	requireNPM(t)
	secret, outside, host, port := forbiddenTargets(t)
	w := newWorkshop(t, buildConfig("disk: 33554432", "npm:evil"))
	endless := newWorkshop(t, buildConfig("timeout: 5s", "npm:evil"))
	for name, c := range map[string]struct {
		w      workshop
		script string
		code   toolroom.Code
		want   string
	}{
		"reads a file of the host": {w, fmt.Sprintf("fs.readFileSync(%q)", secret), toolroom.CodeExecutionFailed, "ENOENT"},
		"reads the environment":    {w, "console.error('found ' + JSON.stringify(Object.keys(process.env).filter(k => /SECRET|TOKEN/.test(k))) + ' in ' + os.homedir()); process.exit(1)", toolroom.CodeExecutionFailed, "found [] in /tmp/build"},
		"writes outside":           {w, fmt.Sprintf("fs.writeFileSync(%q, 'x')", outside), toolroom.CodeExecutionFailed, "evil 1.0.0 failed in its sandbox"},
		"opens the network":        {w, fmt.Sprintf("require('net').connect(%s, %q)", port, host), toolroom.CodeExecutionFailed, "evil 1.0.0 failed in its sandbox"},
		"fills the disk":           {w, "const f = fs.openSync('f', 'w'); for (;;) fs.writeSync(f, Buffer.alloc(1 << 20))", toolroom.CodeExecutionFailed, "ENOSPC"},
		"prints its own result":    {w, "for (const p of fs.readdirSync('/proc')) try { fs.writeFileSync('/proc/' + p + '/fd/1', '{\"name\":\"../../x\",\"size\":1}\\nx') } catch {}", toolroom.CodeDenied, "nothing was used"},
		"does not end":             {endless, "setInterval(() => {}, 1000)", toolroom.CodeTimeout, "did not end within 5s"},
	} {
		tarballs := t.TempDir()
		tarball(t, tarballs, "evil", map[string]string{
			"package.json": `{"name":"evil","version":"1.0.0","scripts":{"preinstall":"node attack.js"}}`, "index.js": "exports.x = 1\n",
			"attack.js": "const fs = require('fs'), os = require('os')\n" + c.script + "\n",
		})
		_, err := pushFiles(c.w, map[string]string{"b.js": "// toolroom:\n//   dependencies: [evil]\nimport * as x from 'evil'\n/** B.\n * @returns {number} */\nexport function b() { return x.x }\n"}, "b.js", tarballs)
		if toolroom.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %s %v", name, toolroom.CodeOf(err), err)
		}
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("an install script wrote outside of its sandbox")
	}
}

func TestAnInstallScriptOfTheRegistryRuns(t *testing.T) {
	t.Parallel()
	requireIndexes(t)
	requireNPM(t)
	w := newWorkshop(t, buildConfig("", "npm:esbuild"))
	pushed, err := pushFiles(w, map[string]string{"b.ts": "// toolroom:\n//   dependencies: [esbuild@0.25.12]\nimport * as esbuild from 'esbuild'\n/** B. */\nexport async function b(code: string): Promise<string> { return (await esbuild.transform(code, {loader: 'ts'})).code }\n"}, "b.ts", "")
	if err != nil {
		t.Fatal(err)
	}
	spec := pushed[0].Spec
	if len(spec.Built) != 1 || !strings.HasPrefix(spec.Built[0], "npm:esbuild 0.25.12 from sha512-") {
		t.Errorf("built %v", spec.Built)
	}
	// The script puts the program in the place of a script that starts it.
	program, err := os.ReadFile(filepath.Join(w.Home(), "packages", "layers", spec.Layer, "node_modules", "esbuild", "bin", "esbuild"))
	if err != nil || !strings.HasPrefix(string(program), "\x7fELF") {
		t.Errorf("its program: %.20q %v", program, err)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:b"}, "ada"); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:b", `{"code":"let x: number = 1"}`, `"let x = 1;\n"`)
}

// forbiddenTargets returns what a build must not reach: a file of this machine, a path to write to, and a
// listener. The environment has a secret, which TestMain sets.
func forbiddenTargets(t *testing.T) (secret, outside, host, port string) {
	t.Helper()
	secret = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	outside = filepath.Join(filepath.Dir(secret), "written")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			t.Error("a build connected to this machine")
		}
	}()
	if os.Getenv(secretVariable) == "" {
		t.Fatalf("%s is not set", secretVariable)
	}
	host, port, _ = net.SplitHostPort(listener.Addr().String())
	return secret, outside, host, port
}

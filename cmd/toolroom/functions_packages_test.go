package main

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/install"
	"github.com/toolroom/toolroom/internal/release"
)

// pathWithUV returns the variable PATH with the folder of uv in front.
func pathWithUV(t *testing.T) string {
	t.Helper()
	uv := os.Getenv("TOOLROOM_UV")
	if uv == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("TOOLROOM_UV is not set")
		}
		t.Skip("TOOLROOM_UV is not set: toolroom setup packages installs uv, and TOOLROOM_UV tells these tests where")
	}
	path := filepath.Dir(uv) + string(filepath.ListSeparator) + os.Getenv("PATH")
	if _, err := install.UV().Find(t.TempDir(), path); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + path
}

// newPackagedWorkshop returns a room that can resolve packages.
func newPackagedWorkshop(t *testing.T, variables ...string) workshop {
	t.Helper()
	return newWorkshop(t, "", append(variables, pathWithUV(t))...)
}

func pushWith(t *testing.T, r *app.App, source, wheels string) ([]release.Pushed, error) {
	t.Helper()
	return r.Parts().Releases.Push(t.Context(), release.Upload{Files: map[string]string{"a.py": source}, File: "a.py", Base: -1, Wheels: wheels}, "ada")
}

// counterWheel returns a folder with the wheel of a package that counts its calls.
func counterWheel(t *testing.T) string {
	t.Helper()
	wheels := t.TempDir()
	out, err := os.Create(filepath.Join(wheels, "counter_of_ours-1.0-py3-none-any.whl"))
	if err != nil {
		t.Fatal(err)
	}
	archive := zip.NewWriter(out)
	for name, text := range map[string]string{
		"counter_of_ours.py":                     "calls = []\ndef up():\n    calls.append(1)\n    return len(calls)\n",
		"counter_of_ours-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: counter-of-ours\nVersion: 1.0\n",
		"counter_of_ours-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"counter_of_ours-1.0.dist-info/RECORD":   "",
	} {
		f, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return wheels
}

func TestPackagesFromAFolderOfWheelsNeedNoNetworkAndKeepNoState(t *testing.T) {
	t.Parallel()
	w := newPackagedWorkshop(t)
	wheels := counterWheel(t)
	const source = "# /// script\n# dependencies = [\"counter-of-ours\"]\n# ///\nimport counter_of_ours\n\ndef a() -> int:\n    return counter_of_ours.up()\n"
	pushed, err := pushWith(t, w.App, source, wheels)
	if err != nil {
		t.Fatal(err)
	}
	spec := pushed[0].Spec
	if spec.Layer == "" || !strings.Contains(spec.Lock, "sha256") || strings.Join(spec.Preload, " ") != "counter_of_ours" {
		t.Errorf("layer %q, preload %v, lock:\n%s", spec.Layer, spec.Preload, spec.Lock)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.wantValue("fn:a", `{}`, "1")
	}
	r := w.call("fn:a", `{}`)
	got, err := w.Receipt(t.Context(), r.Call)
	if err != nil || got.Release == nil || got.Release.Layer != spec.Layer || got.Release.Lock != spec.LockDigest() {
		t.Errorf("the receipt: %+v %v", got, err)
	}
	// The layer is made again from the wheels if it is gone.
	if err := os.RemoveAll(filepath.Join(w.Home(), "packages", "layers", spec.Layer)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(wheels); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:a", `{}`, "1")
}

// The lock has no password, and the wheel is fetched with it, now and when the layer is gone.
func TestPackagesOfAnIndexThatAsksForAPassword(t *testing.T) {
	t.Parallel()
	wheels := counterWheel(t)
	const file, password = "counter_of_ours-1.0-py3-none-any.whl", "pass-of-ours"
	content, err := os.ReadFile(filepath.Join(wheels, file))
	if err != nil {
		t.Fatal(err)
	}
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, got, _ := r.BasicAuth()
		switch {
		case user != "ann" || got != password:
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/simple/counter-of-ours/":
			fmt.Fprintf(w, `<a href="/files/%[1]s#sha256=%[2]x">%[1]s</a>`, file, sha256.Sum256(content))
		case r.URL.Path == "/files/"+file:
			_, _ = w.Write(content)
		default:
			http.NotFound(w, r)
		}
	}))
	defer index.Close()
	w := newPackagedWorkshop(t, "UV_DEFAULT_INDEX="+strings.Replace(index.URL, "://", "://ann:"+password+"@", 1)+"/simple/")
	pushed, err := pushWith(t, w.App, "# /// script\n# dependencies = [\"counter-of-ours\"]\n# ///\nimport counter_of_ours\n\ndef a() -> int:\n    return counter_of_ours.up()\n", "")
	if err != nil {
		t.Fatal(err)
	}
	if lock := pushed[0].Spec.Lock; strings.Contains(lock, password) || !strings.Contains(lock, index.URL+"/files/") {
		t.Errorf("the lock:\n%s", lock)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(w.Home(), "packages")); err != nil {
		t.Fatal(err)
	}
	w.wantValue("fn:a", `{}`, "1")
}

func TestPackagesFromTheIndexAreImportedOnceAndWhatWouldBuildIsRefused(t *testing.T) {
	t.Parallel()
	requireIndexes(t)
	w := newPackagedWorkshop(t)
	const source = "# /// script\n# dependencies = [\"numpy\", \"pandas\"]\n# ///\nimport numpy as np\nimport pandas as pd\n\ncalls = []\n\ndef a(values: list[float]) -> list[float]:\n    calls.append(1)\n    return [pd.Series(values).mean(), float(np.max(values)), len(calls)]\n"
	if _, err := pushWith(t, w.App, source, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Parts().Releases.Release(t.Context(), release.Order{Tool: "fn:a"}, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.wantValue("fn:a", `{"values":[1,2,6]}`, "[3.0,6.0,1]")
	}
	for name, c := range map[string]struct{ requires, want string }{
		"only a source distribution": {"docopt", "cannot be resolved"},
		"no such package":            {"nothing-of-this-name-at-all", "cannot be resolved"},
		"versions that conflict":     {`numpy<1", "pandas>2`, "cannot be resolved"},
		"a repository":               {"x @ git+https://example.com/x", "cannot be resolved"},
	} {
		_, err := pushWith(t, w.App, "# /// script\n# dependencies = [\""+c.requires+"\"]\n# ///\ndef b(): pass\n", "")
		if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

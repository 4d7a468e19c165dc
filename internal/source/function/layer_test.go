package function

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

// wheelOf makes a wheel of members and returns its bytes and its hash.
func wheelOf(t *testing.T, members map[string]string) ([]byte, string) {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range members {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(out.Bytes())
	return out.Bytes(), hex.EncodeToString(sum[:])
}

func lockOf(url, sum string) string {
	return fmt.Sprintf("lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\nversion = \"1\"\nwheels = [{url = %q, hashes = {sha256 = %q}}]\n", url, sum)
}

// serve serves one wheel and counts the requests.
func serve(t *testing.T, data []byte) (url string, count func() int) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		n++
		mu.Unlock()
		w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/a-1-py3-none-any.whl", func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func TestALayerIsUnpackedOnceByManyAndNamedByItsContent(t *testing.T) {
	t.Parallel()
	data, sum := wheelOf(t, map[string]string{
		"a/__init__.py": "x = 1", "a-1.dist-info/METADATA": "Name: a", "a-1.data/purelib/b.py": "y = 2", "a-1.data/scripts/run": "no",
	})
	url, count := serve(t, data)
	s := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient}
	var wg sync.WaitGroup
	digests := make([]string, 8)
	for i := range digests {
		wg.Go(func() {
			var err error
			if digests[i], err = s.Unpack(t.Context(), lockOf(url, sum)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, d := range digests {
		if d != digests[0] || d == "" {
			t.Fatalf("digests %v", digests)
		}
	}
	if count() != 1 {
		t.Errorf("the wheel was fetched %d times", count())
	}
	for name, want := range map[string]string{"a/__init__.py": "x = 1", "b.py": "y = 2"} {
		if got, err := os.ReadFile(filepath.Join(s.Path(digests[0]), name)); err != nil || string(got) != want {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Path(digests[0]), "run")); err == nil {
		t.Error("a script was unpacked")
	}
	left, err := filepath.Glob(filepath.Join(s.Folder, "layers", "making-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestAWheelThatIsNotTheOneOfTheLockIsRefused(t *testing.T) {
	t.Parallel()
	data, sum := wheelOf(t, map[string]string{"a.py": "x = 1"})
	other, otherSum := wheelOf(t, map[string]string{"a.py": "x = 2"})
	outside, outsideSum := wheelOf(t, map[string]string{"../../a.py": "x = 1"})
	_ = data
	for name, c := range map[string]struct {
		data []byte
		sum  string
		code toolroom.Code
		want string
	}{
		"another content":      {other, sum, toolroom.CodeDenied, "nothing was installed"},
		"a member outside":     {outside, outsideSum, toolroom.CodeDenied, "no plain file"},
		"no zip file":          {[]byte("text"), hashOf("text"), toolroom.CodeInvalidArguments, "zip"},
		"no hash":              {other, "", toolroom.CodeDenied, "no SHA-256"},
		"a hash of other form": {other, otherSum[:10], toolroom.CodeDenied, "no SHA-256"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serve(t, c.data)
			s := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient}
			_, err := s.Unpack(t.Context(), lockOf(url, c.sum))
			if toolroom.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
			layers, _ := os.ReadDir(filepath.Join(s.Folder, "layers"))
			for _, e := range layers {
				if e.IsDir() {
					t.Errorf("there is a layer %s", e.Name())
				}
			}
		})
	}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAPackageWithoutAWheelIsRefused(t *testing.T) {
	t.Parallel()
	_, err := parseWheels("lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\nversion = \"1\"\nsdist = {url = \"https://x/a.tar.gz\"}\n")
	if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(err.Error(), "no wheel") {
		t.Errorf("error %v", err)
	}
}

func TestRequirementsThatAreOptionsOfUVAreRefused(t *testing.T) {
	t.Parallel()
	for _, one := range []string{"--index-url=http://x", " -e .", "a\n--find-links=/", "-r other.txt"} {
		if _, err := (Resolver{UV: "/bin/false", Python: "python3"}).Resolve(t.Context(), []string{one}, ""); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(err.Error(), "not a requirement") {
			t.Errorf("%q: %v", one, err)
		}
	}
}

func TestLayersThatNoVersionNeedsAreCollected(t *testing.T) {
	t.Parallel()
	s := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient}
	var locks, layers []string
	for _, text := range []string{"needed = 1\n", "unneeded = 1\n"} {
		data, sum := wheelOf(t, map[string]string{"one.py": text})
		url, _ := serve(t, data)
		lock := lockOf(url, sum)
		layer, err := s.Unpack(t.Context(), lock)
		if err != nil {
			t.Fatal(err)
		}
		locks, layers = append(locks, lock), append(layers, layer)
	}
	killed := filepath.Join(s.Folder, "layers", "making-killed") // what a killed process leaves
	if err := os.MkdirAll(filepath.Join(killed, "part"), 0o700); err != nil {
		t.Fatal(err)
	}
	collect := func(want int) {
		t.Helper()
		if n, err := s.Collect(locks[:1]); err != nil || n != want {
			t.Errorf("%d layers were removed, %v; want %d", n, err, want)
		}
	}
	collect(0) // a push may be about to store the version that needs them
	old := time.Now().Add(-2 * time.Hour)
	for _, kind := range []string{"layers", "wheels"} {
		entries, err := os.ReadDir(filepath.Join(s.Folder, kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := os.Chtimes(filepath.Join(s.Folder, kind, e.Name()), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	collect(2)
	if !s.Has(layers[0]) || s.Has(layers[1]) {
		t.Errorf("needed: %t, unneeded: %t", s.Has(layers[0]), s.Has(layers[1]))
	}
	for kind, want := range map[string]int{"layers": 2, "wheels": 1} { // a layer has a lock file
		if entries, err := os.ReadDir(filepath.Join(s.Folder, kind)); err != nil || len(entries) > want {
			t.Errorf("%s: %v, %v", kind, entries, err)
		}
	}
	// It can be made again.
	if again, err := s.Unpack(t.Context(), locks[1]); err != nil || again != layers[1] {
		t.Errorf("%s, %v", again, err)
	}
}

// A push may be about to store a version that needs a layer which was there already, and a build
// may see it.
func TestALayerThatIsUsedAgainIsNotCollected(t *testing.T) {
	t.Parallel()
	s := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient}
	data, sum := wheelOf(t, map[string]string{"one.py": "x = 1\n"})
	url, _ := serve(t, data)
	lock := lockOf(url, sum)
	layer, err := s.Unpack(t.Context(), lock)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * minAge)
	if err := os.Chtimes(s.Path(layer), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Unpack(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Collect(nil); err != nil || n != 0 || !s.Has(layer) {
		t.Errorf("%d layers were removed, %v", n, err)
	}
}

func TestTwoPackagesMayHaveTheSameFileButNotAnother(t *testing.T) {
	t.Parallel()
	for other, conflict := range map[string]bool{"x = 1\n": false, "x = 2\n": true, "x = 10\n": true, "": true} {
		s := LayerStore{Folder: t.TempDir(), Client: http.DefaultClient}
		lock := ""
		for i, text := range []string{"x = 1\n", other} {
			data, sum := wheelOf(t, map[string]string{"shared/one.py": text, fmt.Sprintf("own%d.py", i): ""})
			url, _ := serve(t, data)
			one := lockOf(url, sum)
			if i > 0 {
				_, one, _ = strings.Cut(strings.ReplaceAll(one, `"a"`, `"b"`), "[[packages]]")
				one = "[[packages]]" + one
			}
			lock += one + "\n"
		}
		if _, err := s.Unpack(t.Context(), lock); (toolroom.CodeOf(err) == toolroom.CodeConflict) != conflict {
			t.Errorf("%q: %v", other, err)
		}
	}
}

func TestPasswordsOfIndexesAreFoundAsUVFindsThem(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for name, text := range map[string]string{
		".config/uv/uv.toml": "index-url = \"https://toml:a@one.example/simple\"\n[[index]]\nname = \"corp-two\"\nurl = \"https://two.example/simple\"\n[[index]]\nurl = \"https://three.example/simple\"\n[pip]\nextra-index-url = [\"https://pip:b@four.example\"]\n",
		".netrc":             "machine other.example login no password no\nmachine three.example\n  login ada password c\n",
	} {
		file := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	for at, user := range IndexPasswords([]string{"HOME=" + home, "UV_INDEX=https://env:d@five.example:8443/simple open=https://open.example", "UV_INDEX_CORP_TWO_USERNAME=named", "UV_INDEX_CORP_TWO_PASSWORD=e", "UV_EXTRA_INDEX_URL=http://env:f@one.example/x"}) {
		got[at] = user.String()
	}
	want := map[string]string{
		"https://one.example": "toml:a", "http://one.example": "env:f", "https://two.example": "named:e", "https://three.example": "ada:c",
		"https://four.example": "pip:b", "https://five.example:8443": "env:d",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestWhatInstallScriptsPrintIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"files":          {"{\"name\":\"node_modules/a/x\",\"size\":2}\nhi{}\n", ""},
		"nothing":        {"{}\n", ""},
		"cut off":        {"{\"name\":\"node_modules/a/x\",\"size\":2}\nhi", "no list of files"},
		"empty":          {"", "no list of files"},
		"more after it":  {"{}\nx", "no list of files"},
		"another folder": {"{\"name\":\"node_modules/ab/x\",\"size\":0}\n{}\n", "not in its folder"},
		"above":          {"{\"name\":\"node_modules/a/../b/x\",\"size\":0}\n{}\n", "not in its folder"},
		"negative":       {"{\"name\":\"node_modules/a/x\",\"size\":-1}\n{}\n", "no list of files"},
		"too large":      {"{\"name\":\"node_modules/a/x\",\"size\":99999999999}\n{}\n", "more than"},
	} {
		file := filepath.Join(t.TempDir(), "changed")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := eachChanged(file, []string{"node_modules/a"}, func(string, bool, io.Reader) error { return nil })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatWasBuiltIsCollectedWithItsLock(t *testing.T) {
	t.Parallel()
	s := LayerStore{Folder: t.TempDir()}
	make := func(text string) buildRecord {
		r, err := s.buildOnce(t.Context(), buildKey(text), func() (buildRecord, error) {
			sum, err := s.put(builtSuffix, func(to io.Writer) error { _, err := io.WriteString(to, text); return err }, func(_, _ string) error { return nil })
			return buildRecord{File: sum + builtSuffix}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	kept, gone := make("kept"), make("gone")
	old := time.Now().Add(-2 * minAge)
	for _, folder := range []string{"wheels", buildFolder} {
		files, err := filepath.Glob(filepath.Join(s.Folder, folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range files {
			if err := os.Chtimes(one, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	lock, err := withScripts(`{"lockfileVersion":3,"packages":{}}`, &scripts{Ran: []string{"node_modules/a"}, Result: strings.TrimSuffix(kept.File, builtSuffix)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect([]string{lock}); err != nil {
		t.Fatal(err)
	}
	for text, r := range map[string]buildRecord{"kept": kept, "gone": gone} {
		_, there := s.file(r.File, "")
		if recorded := s.buildRecord(buildKey(text)).File != ""; there != (text == "kept") || recorded != there {
			t.Errorf("%s: there %t, recorded %t", text, there, recorded)
		}
	}
}

// Collect may have removed the lock file that another process holds.
func TestALayerThatAnotherProcessMadeMeanwhileIsThere(t *testing.T) {
	t.Parallel()
	s := LayerStore{Folder: t.TempDir()}
	write := func(folder, text string) error { return os.WriteFile(filepath.Join(folder, "a"), []byte(text), 0o600) }
	err := s.makeLayer(t.Context(), "sha256:1", func(folder string) error {
		if err := os.Remove(s.Path("sha256:1") + ".lock"); err != nil {
			return err
		}
		if err := s.makeLayer(t.Context(), "sha256:1", func(folder string) error { return write(folder, "first") }); err != nil {
			return err
		}
		return write(folder, "second")
	})
	if text, _ := os.ReadFile(filepath.Join(s.Path("sha256:1"), "a")); err != nil || string(text) != "first" {
		t.Errorf("%q %v", text, err)
	}
}

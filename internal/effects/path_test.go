package effects_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

// targets are the files that a path can mean.
func targets(t testing.TB, text string, at effects.PathBase) []string {
	t.Helper()
	arguments, err := json.Marshal(map[string]string{"path": text})
	if err != nil {
		t.Fatal(err)
	}
	tool := &toolroom.Tool{Source: toolroom.SourceGo, Effects: []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "read", Target: "{path}"}}}
	var out []string
	for _, e := range effects.Of(tool, arguments, nil, at) {
		out = append(out, e.Target)
	}
	return out
}

// traversals lead from /srv/data to /etc/passwd by one reader or another.
var traversals = []string{
	"/etc/passwd", "../../etc/passwd", "../../../../../../etc/passwd", "./../../etc/passwd", "a/../../../etc/passwd", "..//..//etc//passwd", "//etc/passwd", "///etc///passwd", "/./etc/./passwd", "/srv/data/../../etc/passwd", "/srv/../etc/passwd", "/etc/x/../passwd", "/../../etc/passwd",
	"%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%2E%2E%2F%2E%2E%2Fetc/passwd", "%2fetc%2fpasswd", "%252e%252e%252f%252e%252e%252fetc%252fpasswd", "%25252e%25252e/%25252e%25252e/etc/passwd", "/%65tc/p%61sswd", "..%2f../etc/passwd", ".%2e/.%2e/etc/passwd",
	`..\..\etc\passwd`, `..\../etc/passwd`, `\etc\passwd`, `..%5c..%5cetc%5cpasswd`, `..%255c..%255cetc%255cpasswd`, `....\/....\/../../etc/passwd/../../../../../etc/passwd`,
	"%u002e%u002e%u002f%u002e%u002e%u002fetc/passwd", "%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd", "..%c0%af..%c0%afetc%c0%afpasswd", "%e0%80%ae%e0%80%ae/%e0%80%ae%e0%80%ae/etc/passwd", "..%e0%80%af..%e0%80%afetc/passwd", "..%c1%9c..%c1%9cetc/passwd",
	"．．/．．/etc/passwd", "..／..／etc／passwd", "‥/‥/etc/passwd", "․․/․․/etc/passwd", "..∕..∕etc∕passwd", "..⁄..⁄etc⁄passwd", "／etc／passwd", "/ｅｔｃ/ｐａｓｓｗｄ", "%ef%bc%8e%ef%bc%8e/%ef%bc%8e%ef%bc%8e/etc/passwd", "..＼..＼etc＼passwd",
	"file:///etc/passwd", "FILE:///etc/passwd", "file://localhost/etc/passwd", "file:/etc/passwd", "file:///srv/data/../../etc/passwd", "file:///%65tc/passwd", "file:///etc/passwd?x", "file:///etc/passwd#x", "file:%2f%2f/etc/passwd",
	"/etc/passwd\x00.png", "../../etc/passwd\x00", "/etc/passwd%00.png", " /etc/passwd", "/etc/passwd ", "\t/etc/passwd\n", "/etc/passwd%20", "/etc/passwd/.", "/etc/passwd/", "/etc/./passwd", "~/../../etc/passwd", "~//../../etc/passwd",
}

func TestTraversalInAnyEncodingIsSeen(t *testing.T) {
	t.Parallel()
	for _, text := range traversals {
		got := targets(t, text, effects.PathBase{Dir: "/srv/data", Home: "/home/ann"})
		if !slices.Contains(got, "/etc/passwd") && !slices.Contains(got, "") {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

func TestAPlainPathIsOneFile(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	for text, want := range map[string]string{"a.txt": dir + "/a.txt", "a/b c.txt": dir + "/a/b c.txt", "ä.txt": dir + "/ä.txt", "/nowhere/x": "/nowhere/x", "~bob": dir + "/~bob", ".": dir, "a/..": dir} {
		if got := targets(t, text, effects.PathBase{Dir: dir}); len(got) != 1 || got[0] != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}

// realTempDir is a folder without links in its path.
func realTempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func link(t testing.TB, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestLinksAreResolved(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	at := effects.PathBase{Dir: dir}
	if err := os.MkdirAll(dir+"/real/deep", 0o700); err != nil {
		t.Fatal(err)
	}
	link(t, "/etc", dir+"/abs")
	link(t, "../../../../../../../../../../../../../../etc", dir+"/real/up")
	link(t, "abs", dir+"/chain")
	link(t, dir+"/real/deep", dir+"/in")
	link(t, "/etc/passwd", dir+"/file")
	link(t, "loop2", dir+"/loop1")
	link(t, "loop1", dir+"/loop2")
	link(t, "/nowhere/at/all", dir+"/dangling")
	for text, want := range map[string]string{
		"abs/passwd": "/etc/passwd", "real/up/passwd": "/etc/passwd", "chain/passwd": "/etc/passwd", "chain/new-file": "/etc/new-file", "file": "/etc/passwd",
		"in/../x": dir + "/real/x", "abs/../x": "/x", "dangling/new": "/nowhere/at/all/new", "in/../../abs/passwd": "/etc/passwd", "./abs//passwd": "/etc/passwd",
		"loop1/x": "", "chain/%70asswd": "/etc/passwd",
	} {
		if got := targets(t, text, at); !slices.Contains(got, want) {
			t.Errorf("%q is read as %q, want %q among them", text, got, want)
		}
	}
}

// While a link is changed all the time, a reading is of one state or the other,
// never something else; and what keeps to os.Root stays inside whatever was read.
func TestALinkThatChangesIsReadAsItIsOrWas(t *testing.T) {
	t.Parallel()
	dir := realTempDir(t)
	if err := os.Mkdir(dir+"/good", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir + "/good/passwd"} {
		if err := os.WriteFile(name, []byte("inside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link(t, "good", dir+"/l")
	stop := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			to := []string{"/etc", "good"}[i%2]
			_ = os.Remove(dir + "/new")
			if os.Symlink(to, dir+"/new") == nil {
				_ = os.Rename(dir+"/new", dir+"/l")
			}
		}
	})
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for range 2000 {
		for _, target := range targets(t, "l/passwd", effects.PathBase{Dir: dir}) {
			if target != "/etc/passwd" && target != dir+"/good/passwd" && target != dir+"/l/passwd" {
				t.Errorf("read as %q", target)
			}
		}
		if data, err := root.ReadFile("l/passwd"); err == nil && string(data) != "inside" {
			t.Errorf("os.Root read %q", data)
		}
	}
	close(stop)
	flipping.Wait()
}

func FuzzPathsNeverPanicAndAreAbsolute(f *testing.F) {
	for _, text := range traversals {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := targets(t, text, effects.PathBase{Dir: "/srv/data", Home: "/home/ann"})
		if len(got) > 400 || len(got) == 0 && text != "" {
			t.Fatalf("%q: %d readings", text, len(got))
		}
		for _, target := range got {
			if target != "" && (!strings.HasPrefix(target, "/") || strings.Contains(target, "/../") || filepath.Clean(target) != target) {
				t.Fatalf("%q is read as %q", text, target)
			}
		}
	})
}

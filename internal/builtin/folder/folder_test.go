//go:build unix

package folder_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/folder"
)

// layout is a folder that tools may use, beside one that they may not.
type layout struct {
	*folder.Folders
	root, outside string
}

func newLayout(t *testing.T, o folder.Options) layout {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := layout{root: filepath.Join(base, "root"), outside: filepath.Join(base, "outside")}
	for _, dir := range []string{filepath.Join(l.root, "sub"), l.outside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l.put(t, filepath.Join(l.root, "a.txt"), "inside")
	l.put(t, filepath.Join(l.outside, "secret"), "SECRET")
	if l.Folders, err = folder.Open([]string{l.root}, o); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l layout) put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l layout) link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(l.root, name)); err != nil {
		t.Fatal(err)
	}
}

func TestNoPathLeadsOutside(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	l.link(t, filepath.Join(l.outside, "secret"), "absolute")
	l.link(t, "../outside/secret", "relative")
	l.link(t, l.outside, "folder")
	l.link(t, "folder/secret", "twice")
	l.link(t, "sub/../../outside/secret", "dots")
	l.link(t, "loop", "loop")
	for _, path := range []string{
		"../outside/secret", filepath.Join(l.outside, "secret"), "absolute", "relative", "folder/secret", "twice", "dots", "loop",
		"sub/../../outside/secret", "/etc/passwd", "/proc/self/environ", "/proc/self/root" + l.outside + "/secret", "", "a.txt\x00",
	} {
		if data, _, err := l.Read(path, 1<<20); err == nil {
			t.Errorf("read of %q: %s", path, data)
		}
		if err := l.Write(path, []byte("x"), nil); err == nil {
			t.Errorf("write of %q succeeded", path)
		}
		if err := l.Remove(path); err == nil {
			t.Errorf("removal of %q succeeded", path)
		}
	}
	for _, path := range []string{"folder/new", "../outside/new", "folder/deep/new"} {
		if err := l.Write(path, []byte("x"), nil); err == nil {
			t.Errorf("write of %q succeeded", path)
		}
	}
	if text, err := os.ReadFile(filepath.Join(l.outside, "secret")); err != nil || string(text) != "SECRET" {
		t.Errorf("the file outside is %q, %v", text, err)
	}
	if _, err := l.OpenTree("folder"); err == nil {
		t.Error("a linked folder outside was opened")
	}
}

func TestLinksInsideAreFollowedAndKept(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	l.link(t, "../a.txt", "sub/link")
	l.link(t, filepath.Join(l.root, "a.txt"), "absolute")
	for _, path := range []string{"sub/link", "absolute", filepath.Join(l.root, "sub", "link")} {
		if err := l.Write(path, []byte(path), nil); err != nil {
			t.Fatal(err)
		}
		data, _, err := l.Read("a.txt", 100)
		if err != nil || string(data) != path {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	if info, err := os.Lstat(filepath.Join(l.root, "absolute")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
}

// Another program replaces a folder by a link outside, again and again.
func TestALinkThatIsSwappedDuringTheCallLeadsNowhere(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	l.put(t, filepath.Join(l.root, "sub", "secret"), "inside")
	var stop atomic.Bool
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		sub, aside := filepath.Join(l.root, "sub"), filepath.Join(l.root, "aside")
		for !stop.Load() {
			_ = os.Rename(sub, aside)
			_ = os.Symlink(l.outside, sub)
			_ = os.Remove(sub)
			_ = os.Rename(aside, sub)
		}
	}()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if data, _, err := l.Read("sub/secret", 100); err == nil && string(data) != "inside" && string(data) != "new" {
			t.Errorf("read %q", data)
			break
		}
		_ = l.Write("sub/secret", []byte("new"), nil)
	}
	stop.Store(true)
	<-swapped
	entries, err := os.ReadDir(l.outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside are %v, %v", entries, err)
	}
	if text, _ := os.ReadFile(filepath.Join(l.outside, "secret")); string(text) != "SECRET" {
		t.Errorf("the file outside is %q", text)
	}
}

func TestPipesDevicesAndFoldersAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	if err := unix.Mkfifo(filepath.Join(l.root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.link(t, "/dev/zero", "zero")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, path := range []string{"pipe", "zero", "sub", "."} {
			if _, _, err := l.Read(path, 10); err == nil {
				t.Errorf("%s was read", path)
			}
			if err := l.Write(path, []byte("x"), nil); err == nil {
				t.Errorf("%s was written", path)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it hangs")
	}
}

func TestToolroomsOwnFilesAreProtectedInside(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, dir := range []string{"home", "sub"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(base, "home", "key")
	if err := os.WriteFile(key, []byte("KEY"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("home", filepath.Join(base, "alias")); err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(base, "rules.cedar")
	if err := os.WriteFile(policy, []byte("permit"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := folder.Open([]string{base}, folder.Options{Hidden: []string{filepath.Join(base, "home")}, Fixed: []string{policy}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"home/key", "alias/key", "sub/../home/key", key} {
		if _, _, err := f.Read(path, 100); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("read of %s: %v", path, err)
		}
		if err := f.Write(path, []byte("x"), nil); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("write of %s: %v", path, err)
		}
	}
	for _, path := range []string{"rules.cedar", "toolroom.yaml", "sub/toolroom.yaml"} {
		if err := f.Write(path, []byte("x"), nil); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("write of %s: %v", path, err)
		}
	}
	if data, _, err := f.Read("rules.cedar", 100); err != nil || string(data) != "permit" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestAWriteKeepsPermissionsAndSeesAnotherWriter(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	path := filepath.Join(l.root, "a.txt")
	if err := os.Chmod(path, 0o751); err != nil {
		t.Fatal(err)
	}
	_, info, err := l.Read("a.txt", 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Write("a.txt", []byte("first"), info); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(path); err != nil || now.Mode().Perm() != 0o751 {
		t.Errorf("%v, %v", now.Mode(), err)
	}
	if err := l.Write("a.txt", []byte("second"), info); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("the file has changed since it was read: %v", err)
	}
	entries, err := os.ReadDir(l.root)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestGitignoreIsRespected(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	for name, text := range map[string]string{
		".gitignore": "*.log\n/build/\n!keep.log\n# comment\ndoc/*.txt\n", "x.log": "", "keep.log": "", "build/out": "", "sub/build/out": "",
		"sub/.gitignore": "!x.log\nlocal\n", "sub/x.log": "", "sub/local": "", "doc/a.txt": "", "doc/b.md": "", ".git/config": "",
	} {
		path := filepath.Join(l.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l.put(t, path, text)
	}
	for dir, want := range map[string]string{
		".":   ".gitignore a.txt doc doc/b.md keep.log sub sub/.gitignore sub/build sub/build/out sub/x.log ",
		"sub": ".gitignore build build/out x.log ",
		"doc": "b.md ",
	} {
		tree, err := l.OpenTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := tree.Walk(t.Context(), folder.WalkOptions{Recursive: true}, func(e folder.Entry) bool { got += e.Path + " "; return true }); err != nil {
			t.Fatal(err)
		}
		tree.Close()
		if got != want {
			t.Errorf("%s has %s\nwant %s", dir, got, want)
		}
	}
}

func TestAFolderOfToolroomIsNotOpened(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	inside := filepath.Join(home, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{home, inside} {
		if _, err := folder.Open([]string{dir}, folder.Options{Hidden: []string{home}}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestALinkThatLeadsOutsideIsNamed(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	l.link(t, filepath.Join(l.outside, "secret"), "absolute")
	_, _, err := l.Read("absolute", 1<<20)
	e := toolroom.AsError(err)
	if e.Code != toolroom.CodeDenied || !strings.Contains(e.Message, "through a link to "+filepath.Join(l.outside, "secret")) || !strings.Contains(e.Hint, strconv.Quote(l.outside)) {
		t.Errorf("%v: %+v", err, e)
	}
}

func TestAFileWhoseNameSpeaksOfEscapesIsInside(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	l.put(t, filepath.Join(l.root, "escapes.md"), "fire escapes")
	if _, err := l.Stat("escapes.md/x"); err == nil || strings.Contains(err.Error(), "outside") {
		t.Errorf("a path below a file: %v", err)
	}
}

func TestAWriteThatIsDeniedMakesNoFolders(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	l.link(t, "sub", "link")
	for _, path := range []string{"new/.git/hooks/pre-commit", "link/.git/config", "forbidden/a/b"} {
		refusing := l.Excluding(func(_, real string) bool { return strings.Contains(real, "forbidden") })
		if err := refusing.Write(path, []byte("x"), nil); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"new", "sub/.git", "forbidden"} {
		if _, err := os.Lstat(filepath.Join(l.root, path)); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}

func TestTheRulesOfAFolderWithACaretAreItsOwn(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	if err := os.Mkdir(filepath.Join(l.root, "^old"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".gitignore": "/build\n", "build": "", "kept": ""} {
		l.put(t, filepath.Join(l.root, "^old", name), text)
	}
	tree, err := l.OpenTree(".")
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var seen []string
	err = tree.Walk(t.Context(), folder.WalkOptions{Recursive: true, Pattern: "^old/*"}, func(e folder.Entry) bool {
		seen = append(seen, e.Path)
		return true
	})
	if got := strings.Join(seen, " "); err != nil || got != "^old/.gitignore ^old/kept" {
		t.Errorf("%s, %v", got, err)
	}
}

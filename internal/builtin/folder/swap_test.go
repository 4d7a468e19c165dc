//go:build unix

package folder_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/folder"
)

// openTrees runs a test with trees as they are on this system, and on others.
func openTrees(t *testing.T, test func(t *testing.T, l layout, tree *folder.Tree)) {
	for _, portable := range []bool{false, true} {
		t.Run(fmt.Sprintf("portable=%v", portable), func(t *testing.T) {
			t.Parallel()
			l := newLayout(t, folder.Options{})
			for path, text := range map[string]string{"sub/file": "inside", "other/file": "other", "hidden/file": "HIDDEN TEXT"} {
				l.mkdir(t, filepath.Dir(path))
				l.put(t, filepath.Join(l.root, path), text)
			}
			l.put(t, filepath.Join(l.outside, "file"), "SECRET TEXT")
			var err error
			if l.Folders, err = folder.Open([]string{l.root}, folder.Options{Hidden: []string{filepath.Join(l.root, "hidden")}}); err != nil {
				t.Fatal(err)
			}
			tree, err := l.OpenTree(".")
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			if portable {
				tree.Portable()
			}
			test(t, l, tree)
		})
	}
}

func (l layout) mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(l.root, name), 0o700); err != nil {
		t.Fatal(err)
	}
}

// replace moves what is at name aside, and puts a link to target there.
func (l layout) replace(t *testing.T, name, target string) {
	t.Helper()
	l.away(t, name)
	l.link(t, target, name)
}

func (l layout) away(t *testing.T, name string) {
	t.Helper()
	if err := os.Rename(filepath.Join(l.root, name), filepath.Join(l.outside, "aside")); err != nil {
		t.Fatal(err)
	}
}

// What is replaced after a walk has seen it, and before it is opened, leads nowhere.
func TestAFileThatIsSwappedDuringAWalkIsNotOpened(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(t *testing.T, l layout){
		"the file by a link outside":     func(t *testing.T, l layout) { l.replace(t, "sub/file", filepath.Join(l.outside, "file")) },
		"the file by a relative link":    func(t *testing.T, l layout) { l.replace(t, "sub/file", "../../outside/file") },
		"the file by a link to a hidden": func(t *testing.T, l layout) { l.replace(t, "sub/file", "../hidden/file") },
		"the file by a device":           func(t *testing.T, l layout) { l.replace(t, "sub/file", "/dev/zero") },
		"the file by itself":             func(t *testing.T, l layout) { l.replace(t, "sub/file", "/proc/self/fd/0") },
		"the file by a folder":           func(t *testing.T, l layout) { l.away(t, "sub/file"); l.mkdir(t, "sub/file") },
		"the file by a pipe": func(t *testing.T, l layout) {
			l.away(t, "sub/file")
			if err := unix.Mkfifo(filepath.Join(l.root, "sub", "file"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the folder by a link outside":     func(t *testing.T, l layout) { l.replace(t, "sub", l.outside) },
		"the folder by a link to a hidden": func(t *testing.T, l layout) { l.replace(t, "sub", "hidden") },
		"the folder is moved outside":      func(t *testing.T, l layout) { l.away(t, "sub") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			openTrees(t, func(t *testing.T, l layout, tree *folder.Tree) {
				files := tree.Opener()
				defer files.Close()
				seen := false
				err := tree.Walk(t.Context(), folder.WalkOptions{Recursive: true}, func(e folder.Entry) bool {
					if e.Path != "sub/file" {
						return true
					}
					seen = true
					swap(t, l)
					if f, err := files.Open(e.Path); err == nil {
						text, _ := io.ReadAll(io.LimitReader(f, 100))
						t.Errorf("%s was opened: %q", f.Real, text)
						f.Close()
					}
					if info, err := e.Info(); err == nil && info.Size() == int64(len("HIDDEN TEXT")) {
						t.Errorf("the size of another file is shown")
					}
					return true
				})
				if err != nil || !seen {
					t.Error(seen, err)
				}
			})
		})
	}
}

// A link that leads to another file inside may be followed, but the file is known by its own path.
func TestAFileThatBecomesALinkInsideIsKnownByItsRealPath(t *testing.T) {
	t.Parallel()
	openTrees(t, func(t *testing.T, l layout, tree *folder.Tree) {
		l.replace(t, "sub/file", "../other/file")
		files := tree.Opener()
		defer files.Close()
		f, err := files.Open("sub/file")
		if err != nil {
			return
		}
		defer f.Close()
		if f.Real != filepath.Join(l.root, "other", "file") {
			t.Errorf("%s was opened", f.Real)
		}
	})
}

// A walk does not go into a folder that was replaced after its parent was read.
func TestAFolderThatIsSwappedDuringAWalkIsNotListed(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]string{"outside": "../outside", "hidden": "hidden", "inside": "other", "nowhere": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			openTrees(t, func(t *testing.T, l layout, tree *folder.Tree) {
				var got []string
				err := tree.Walk(t.Context(), folder.WalkOptions{Recursive: true}, func(e folder.Entry) bool {
					got = append(got, e.Path)
					if e.Path == "sub" {
						if l.away(t, "sub"); target != "" {
							l.link(t, target, "sub")
						}
					}
					return true
				})
				if want := "a.txt other other/file sub"; err != nil || strings.Join(got, " ") != want {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
			})
		})
	}
}

func TestATreeThatWasMovedIsNoticed(t *testing.T) {
	t.Parallel()
	openTrees(t, func(t *testing.T, l layout, _ *folder.Tree) {
		tree, err := l.OpenTree("sub")
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		if err := tree.CheckUnmoved(); err != nil {
			t.Error(err)
		}
		if err := os.Rename(filepath.Join(l.root, "sub"), filepath.Join(l.root, "other", "sub")); err != nil {
			t.Fatal(err)
		}
		if err := tree.CheckUnmoved(); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Error(err)
		}
	})
}

// A folder that becomes a link between two files of it leads nowhere.
func TestAnOpenerFollowsNoFolderThatWasSwapped(t *testing.T) {
	t.Parallel()
	openTrees(t, func(t *testing.T, l layout, tree *folder.Tree) {
		files := tree.Opener()
		defer files.Close()
		read := func(name string) string {
			f, err := files.Open(name)
			if err != nil {
				return "refused"
			}
			defer f.Close()
			text, err := io.ReadAll(f)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		if got := read("other/file") + " " + read("sub/file"); got != "other inside" {
			t.Errorf("read %q", got)
		}
		l.replace(t, "sub", l.outside)
		if got := read("other/file") + " " + read("sub/file"); got != "other refused" {
			t.Errorf("after the swap %q", got)
		}
	})
}

// Others swap a folder and a file, by links and pipes, as fast as they can.
func TestAWalkBesideSwapsStaysInside(t *testing.T) {
	t.Parallel()
	openTrees(t, func(t *testing.T, l layout, tree *folder.Tree) {
		targets := []string{l.outside, "other"}
		if runtime.GOOS == "linux" { // which tells the path of an open file
			targets = append(targets, "hidden")
		}
		var stop atomic.Bool
		swapped := make(chan struct{})
		go func() {
			defer close(swapped)
			sub, file, aside := filepath.Join(l.root, "sub"), filepath.Join(l.root, "other", "file"), filepath.Join(l.outside, "aside")
			for !stop.Load() {
				for _, target := range targets {
					_ = os.Rename(sub, aside)
					_ = os.Symlink(target, sub)
					_ = os.Remove(sub)
					_ = os.Rename(aside, sub)
				}
				_ = os.Rename(file, aside)
				_ = unix.Mkfifo(file, 0o600)
				_ = os.Remove(file)
				_ = os.Symlink(filepath.Join(l.outside, "file"), file)
				_ = os.Rename(aside, file)
			}
		}()
		done := make(chan struct{})
		go func() {
			defer close(done)
			files := tree.Opener()
			defer files.Close()
			for range 300 {
				err := tree.Walk(t.Context(), folder.WalkOptions{Recursive: true}, func(e folder.Entry) bool {
					if strings.Contains(e.Path, "secret") {
						t.Errorf("%s was listed", e.Path)
					}
					f, err := files.Open(e.Path)
					if err != nil {
						return true
					}
					defer f.Close()
					if text, err := io.ReadAll(io.LimitReader(f, 100)); err != nil || string(text) != "inside" && string(text) != "other" {
						t.Errorf("%s: %q, %v", f.Real, text, err)
					}
					return true
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("it hangs")
		}
		stop.Store(true)
		<-swapped
	})
}

// The system tells a file that was deleted by an end of its path, which may be a name as well.
func TestANameLikeThatOfADeletedFileIsKept(t *testing.T) {
	t.Parallel()
	l := newLayout(t, folder.Options{})
	path := filepath.Join(l.root, "a (deleted)")
	l.put(t, path, "x")
	l.link(t, "a (deleted)", "link")
	f, err := l.Open("link")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Real != path {
		t.Errorf("%q is at %q", path, f.Real)
	}
}

package restrict

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// tree is a folder with what a program may do its tricks with, all of it long unchanged.
type tree struct {
	t   *testing.T
	top string
}

func (tr tree) path(name string) string { return filepath.Join(tr.top, name) }

func (tr tree) do(errs ...error) {
	tr.t.Helper()
	for _, err := range errs {
		if err != nil {
			tr.t.Fatal(err)
		}
	}
}

func newTree(t *testing.T) tree {
	top, err := filepath.EvalSymlinks(t.TempDir())
	tr := tree{t, top}
	tr.do(err)
	for _, dir := range []string{"shown/a/b", "elsewhere/other", "elsewhere/target"} {
		tr.do(os.MkdirAll(tr.path(dir), 0o700))
	}
	for _, file := range []string{"shown/a/b/plain", "elsewhere/secret", "elsewhere/other/.env", "elsewhere/file"} {
		tr.do(os.WriteFile(tr.path(file), []byte(file), 0o600))
	}
	tr.do(os.Symlink(tr.path("elsewhere/file"), tr.path("shown/a/link")))
	return tr
}

// hides are the paths that a plan for **/.env below shown hides.
func (tr tree) hides() (paths []string) {
	tr.t.Helper()
	binds, err := Plan([]toolroom.Effect{{Kind: toolroom.EffectFile, Target: tr.path("shown") + "/**/.env"}}, View{
		Shown: []lockdown.Bind{{Source: tr.top, Writable: true}}, Scratch: tr.top,
	})
	tr.do(err)
	for _, b := range binds {
		if b.Source != b.Target {
			paths = append(paths, b.Target)
		}
	}
	return paths
}

// The tricks of a program that wants a plan to overlook a file since the folder was read.
func TestAPlanSeesWhatHasChangedSinceTheOneBefore(t *testing.T) {
	t.Parallel()
	tricks := map[string]struct {
		trick func(tree)
		want  string
	}{
		"a new file":                  {func(tr tree) { tr.do(os.WriteFile(tr.path("shown/a/b/.env"), nil, 0o600)) }, "shown/a/b/.env"},
		"a file renamed into it":      {func(tr tree) { tr.do(os.Rename(tr.path("elsewhere/secret"), tr.path("shown/a/b/.env"))) }, "shown/a/b/.env"},
		"a file renamed within it":    {func(tr tree) { tr.do(os.Rename(tr.path("shown/a/b/plain"), tr.path("shown/a/b/.env"))) }, "shown/a/b/.env"},
		"a hard link":                 {func(tr tree) { tr.do(os.Link(tr.path("elsewhere/secret"), tr.path("shown/a/b/.env"))) }, "shown/a/b/.env"},
		"a folder renamed into it":    {func(tr tree) { tr.do(os.Rename(tr.path("elsewhere/other"), tr.path("shown/a/b/c"))) }, "shown/a/b/c/.env"},
		"its time set back":           {setBack, "shown/a/b/.env"},
		"another folder in its place": {replace, "shown/a/b/.env"},
		"the folder around it replaced": {func(tr tree) {
			tr.do(os.Rename(tr.path("shown/a"), tr.path("elsewhere/a")), os.Mkdir(tr.path("shown/a"), 0o700),
				os.Rename(tr.path("elsewhere/other"), tr.path("shown/a/b")))
		}, "shown/a/b/.env"},
		"exchanged with another folder": {func(tr tree) {
			tr.do(unix.Renameat2(unix.AT_FDCWD, tr.path("shown/a/b"), unix.AT_FDCWD, tr.path("elsewhere/other"), unix.RENAME_EXCHANGE))
		}, "shown/a/b/.env"},
		"gone and back": {func(tr tree) {
			replace(tr)
			tr.do(os.Rename(tr.path("shown/a/b"), tr.path("elsewhere/other")), os.Rename(tr.path("elsewhere/gone"), tr.path("shown/a/b")))
			if got := tr.hides(); len(got) > 0 {
				tr.t.Errorf("without the file: %v", got)
			}
			replace(tr)
		}, "shown/a/b/.env"},
		"a link in its place": {func(tr tree) {
			tr.do(os.Rename(tr.path("shown/a/b"), tr.path("elsewhere/gone")), os.Symlink(tr.path("elsewhere/other"), tr.path("shown/a/b")))
		}, "elsewhere/other/.env"},
		"a folder where a link leads": {func(tr tree) {
			tr.do(os.Remove(tr.path("elsewhere/file")), os.Rename(tr.path("elsewhere/other"), tr.path("elsewhere/file")))
		}, "elsewhere/file/.env"},
		"a mount over it": {func(tr tree) {
			over := tr.path("shown/a/b")
			if err := unix.Mount(tr.path("elsewhere/other"), over, "", unix.MS_BIND, ""); err != nil {
				if os.Getenv("CI") == "true" {
					tr.t.Fatal(err)
				}
				tr.t.Skip("mounts need root:", err)
			}
			tr.t.Cleanup(func() { tr.do(unix.Unmount(over, 0)) })
		}, "shown/a/b/.env"},
	}
	trees := map[string]tree{}
	for name := range tricks {
		trees[name] = newTree(t)
	}
	time.Sleep(minFolderAge + 100*time.Millisecond) // a change time cannot be set, only waited for
	for name, c := range tricks {
		t.Run(name, func(t *testing.T) {
			tr := tree{t, trees[name].top}
			if got := tr.hides(); len(got) > 0 {
				t.Fatalf("before the trick: %v", got)
			}
			folderReads.mu.Lock()
			known := folderReads.known[tr.path("shown/a/b")] != nil
			folderReads.mu.Unlock()
			if !known {
				t.Error("the folder is not remembered, so that the test says nothing")
			}
			c.trick(tr)
			if got := tr.hides(); !slices.Equal(got, []string{tr.path(c.want)}) {
				t.Errorf("hidden: %v, want %s", got, c.want)
			}
		})
	}
}

// setBack makes a file and sets the folder's times to what they were before.
func setBack(tr tree) {
	var before unix.Stat_t
	dir := tr.path("shown/a/b")
	tr.do(unix.Lstat(dir, &before), os.WriteFile(filepath.Join(dir, ".env"), nil, 0o600),
		unix.UtimesNanoAt(unix.AT_FDCWD, dir, []unix.Timespec{before.Atim, before.Mtim}, 0))
}

func replace(tr tree) {
	tr.do(os.Rename(tr.path("shown/a/b"), tr.path("elsewhere/gone")), os.Rename(tr.path("elsewhere/other"), tr.path("shown/a/b")))
}

// Before Linux 6.13, changes that follow each other at once have the same time.
func TestAPlanSeesAChangeInTheSameTickOfTheClock(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	file := tr.path("shown/a/b/.env")
	for range 100 {
		tr.do(os.WriteFile(file, nil, 0o600), os.Remove(file))
		if got := tr.hides(); len(got) > 0 {
			t.Fatalf("hidden: %v", got)
		}
		tr.do(os.WriteFile(file, nil, 0o600))
		if got := tr.hides(); len(got) != 1 {
			t.Fatal("the file is not hidden")
		}
		tr.do(os.Remove(file))
	}
}

func TestFoldersWhoseTimesMeanNothingYetAreNotRemembered(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/proc", "/proc/self", "/sys", "/sys/kernel", t.TempDir()} {
		if _, keep, err := readFolder(dir); keep || err != nil {
			t.Errorf("%s: remembered %t, %v", dir, keep, err)
		}
	}
}

// A pattern looks at each file once, so that **/*.pem is not refused earlier than **/.env.
func TestARuleCountsAFileOnce(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	w := &ruleWalk{
		plan:       &plan{view: View{Shown: []lockdown.Bind{{Source: tr.top}}}, protections: map[string]protection{}, folders: map[string]*listing{}},
		protection: hidden, left: maxWalked, seen: map[visit]bool{},
	}
	tr.do(w.follow(tr.path("shown"), []string{"**", "*.pem"}))
	// a, b, the file in it, and the link.
	if looked := maxWalked - w.left; looked != 4 {
		t.Errorf("%d files and folders were looked at", looked)
	}
}

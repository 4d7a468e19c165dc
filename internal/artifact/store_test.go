package artifact

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsPutCanBeReadUnderItsHandle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for kind, form := range map[Kind]string{Result: `^res_[a-z2-7]{26}$`, File: `^art_[a-z2-7]{26}$`} {
		a, err := f.store.Put(t.Context(), "ann", kind, "../report.txt", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(form).MatchString(a.Handle) {
			t.Errorf("handle %q is not of the form %s", a.Handle, form)
		}
		want := toolroom.Artifact{Handle: a.Handle, Name: "report.txt", MIMEType: "text/plain", Size: 5, Expires: f.now().Add(time.Hour)}
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("artifact (-want +got):\n%s", diff)
		}
		stat, err := f.store.Stat(t.Context(), "ann", a.Handle)
		if diff := cmp.Diff(want, stat); err != nil || diff != "" {
			t.Errorf("Stat: %v (-want +got):\n%s", err, diff)
		}
		file, opened, err := f.store.Open(t.Context(), "ann", a.Handle)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		if string(data) != "hello" || opened != want {
			t.Errorf("Open gives %q of %v", data, opened)
		}
	}
}

func TestAnArtifactIsOnlyThereForItsOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, "hello")
	wantCode(t, toolroom.CodeNotFound, func() error { _, err := f.store.Stat(t.Context(), "bob", a.Handle); return err })
	wantCode(t, toolroom.CodeNotFound, func() error { _, _, err := f.store.Open(t.Context(), "bob", a.Handle); return err })
	wantCode(t, toolroom.CodeNotFound, func() error {
		_, err := f.store.Read(t.Context(), "bob", a.Handle, ReadOptions{})
		return err
	})
	wantCode(t, toolroom.CodeNotFound, func() error { return f.store.Delete(t.Context(), "bob", a.Handle) })
	if list, err := f.store.List(t.Context(), "bob"); err != nil || len(list) != 0 {
		t.Errorf("List for bob = %v, %v", list, err)
	}
	if list, err := f.store.List(t.Context(), "ann"); err != nil || len(list) != 1 || list[0] != a {
		t.Errorf("List for ann = %v, %v", list, err)
	}
}

func TestWhatIsNoHandleIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	for _, handle := range []string{"", "art_", "art_../../etc/passwd", "res_AAAA", "new-123", "xyz_aaaa", strings.Repeat("a", 1<<20)} {
		wantCode(t, toolroom.CodeNotFound, func() error { _, err := f.store.Stat(t.Context(), "ann", handle); return err })
		wantCode(t, toolroom.CodeNotFound, func() error { return f.store.Delete(t.Context(), "ann", handle) })
	}
}

func TestAFullStoreRefusesAndKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	limits := Limits{Entries: 3, Total: 10, Each: 6}
	tests := map[string]struct {
		have []string
		put  string
		want string
	}{
		"too many":                 {[]string{"a", "b", "c"}, "d", "there are 3 files already"},
		"too much in all":          {[]string{"123456", "12"}, "345", "take 8 of 10 bytes"},
		"full to the byte":         {[]string{"123456", "1234"}, "5", "take 10 of 10 bytes"},
		"too large for one":        {nil, "1234567", "larger than 6 bytes"},
		"much too large for one":   {nil, strings.Repeat("x", 1<<20), "larger than 6 bytes"},
		"too large among others":   {[]string{"1"}, "1234567", "larger than 6 bytes"},
		"larger than what is left": {[]string{"123456"}, "12345", "take 6 of 10 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, Options{Files: limits})
			had := []toolroom.Artifact{}
			for _, text := range tt.have {
				had = append(had, f.put(t, "ann", File, text))
			}
			_, err := f.store.Put(t.Context(), "ann", File, "", "", strings.NewReader(tt.put))
			e := toolroom.AsError(err)
			if toolroom.CodeOf(err) != toolroom.CodeResourceLimit || !strings.Contains(err.Error(), tt.want) || e.Hints() == "" {
				t.Errorf("Put = %v, want resource_limit, %q and a hint", err, tt.want)
			}
			list, err := f.store.List(t.Context(), "ann")
			if diff := cmp.Diff(had, list); err != nil || diff != "" {
				t.Errorf("List: %v (-want +got):\n%s", err, diff)
			}
			if n := len(f.files(t)); n != len(had) {
				t.Errorf("%d files on the disk for %d artifacts", n, len(had))
			}
		})
	}
}

func TestLimitsAreOfOneOwnerAndOneKind(t *testing.T) {
	t.Parallel()
	one := Limits{Entries: 1}
	f := newFixture(t, Options{Files: one, Results: one})
	f.put(t, "ann", File, "a")
	f.put(t, "ann", Result, "b")
	f.put(t, "bob", File, "c")
}

func TestDeletingMakesRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Files: Limits{Entries: 1}})
	a := f.put(t, "ann", File, "a")
	if err := f.store.Delete(t.Context(), "ann", a.Handle); err != nil {
		t.Fatal(err)
	}
	wantCode(t, toolroom.CodeNotFound, func() error { _, err := f.store.Stat(t.Context(), "ann", a.Handle); return err })
	f.put(t, "ann", File, "b")
	if n := len(f.files(t)); n != 1 {
		t.Errorf("%d files on the disk, want 1", n)
	}
}

func TestExpiredArtifactsDoNotCountAndAreSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Files: Limits{Entries: 1, TTL: time.Minute}})
	a := f.put(t, "ann", File, "a")
	f.advance(time.Minute - 1)
	if _, err := f.store.Stat(t.Context(), "ann", a.Handle); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	f.advance(1)
	wantCode(t, toolroom.CodeNotFound, func() error { _, err := f.store.Stat(t.Context(), "ann", a.Handle); return err })
	b := f.put(t, "ann", File, "b")
	if diff := cmp.Diff([]string{b.Handle}, f.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDefaultLimitsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	want := map[Kind]Limits{
		Result: {Entries: 64, Total: 32 << 20, Each: 8 << 20, TTL: time.Hour},
		File:   {Entries: 32, Total: 256 << 20, Each: 64 << 20, TTL: time.Hour},
	}
	if diff := cmp.Diff(want, f.store.limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestParallelPutsKeepToTheLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{Files: Limits{Entries: 100, Total: 50}})
	var stored atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := f.store.Put(t.Context(), "ann", File, "", "", strings.NewReader("12345"))
			switch toolroom.CodeOf(err) {
			case "":
				stored.Add(1)
			case toolroom.CodeResourceLimit:
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if stored.Load() != 10 {
		t.Errorf("%d of 5 bytes stored under a limit of 50", stored.Load())
	}
	if n := len(f.files(t)); n != 10 {
		t.Errorf("%d files on the disk, want 10", n)
	}
}

func TestAPutThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("upstream went away")
	ctx, cancel := context.WithCancel(t.Context())
	for name, r := range map[string]io.Reader{
		"a broken reader": io.MultiReader(strings.NewReader("some"), readerFunc(func([]byte) (int, error) { return 0, broken })),
		"a cancelled call": readerFunc(func(p []byte) (int, error) {
			cancel()
			return copy(p, "more"), nil
		}),
	} {
		f := newFixture(t, Options{})
		_, err := f.store.Put(ctx, "ann", File, "", "", r)
		if !errors.Is(err, broken) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Put = %v", name, err)
		}
		if files := f.files(t); len(files) != 0 {
			t.Errorf("%s left %v", name, files)
		}
		if list, _ := f.store.List(t.Context(), "ann"); len(list) != 0 {
			t.Errorf("%s left %v", name, list)
		}
	}
}

func TestAFullDiskIsReportedWithItsFolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	full := readerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC })
	_, err := f.store.Put(t.Context(), "ann", File, "", "", full)
	if e := toolroom.AsError(err); !strings.Contains(e.Message, f.dir) || !e.Retryable || e.Hints() == "" {
		t.Errorf("Put = %v, want the folder, retryable, and a hint", err)
	}
	if files := f.files(t); len(files) != 0 {
		t.Errorf("it left %v", files)
	}
}

func TestOpeningSweepsWhatCrashesLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	kept := f.put(t, "ann", File, "kept")
	home := filepath.Dir(f.store.path("ann", "x"))
	old := time.Now().Add(-time.Hour)
	for name, changed := range map[string]time.Time{"new-123": old, "art_orphan": old, "new-456": time.Now()} {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte("left over"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(f.store.path("ann", kept.Handle), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), f.dir, f.index, Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{kept.Handle, "new-456"}, f.files(t)); diff != "" {
		t.Errorf("a file under way must stay, orphans must go (-want +got):\n%s", diff)
	}
}

func TestAnArtifactWhoseFileIsGoneIsNotFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "ann", File, "a")
	if err := os.Remove(f.store.path("ann", a.Handle)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, toolroom.CodeNotFound, func() error { _, _, err := f.store.Open(t.Context(), "ann", a.Handle); return err })
	if err := f.store.Delete(t.Context(), "ann", a.Handle); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

func TestFilesAreForTheirUserOnlyAndNamedByHandle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Options{})
	a := f.put(t, "../../ann", File, "a")
	path := f.store.path("../../ann", a.Handle)
	if rel, err := filepath.Rel(f.dir, path); err != nil || !filepath.IsLocal(rel) {
		t.Errorf("file %s is outside of %s", path, f.dir)
	}
	for path, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): fs.ModeDir | 0o700, f.dir: fs.ModeDir | 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

func TestNamesAreMadeSafe(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                               "",
		"report.txt":                     "report.txt",
		"Übersicht (2026), teil+1.pdf":   "Übersicht (2026), teil+1.pdf",
		"../../etc/passwd":               "passwd",
		`C:\Windows\system.ini`:          "system.ini",
		"..":                             "",
		"a/..":                           "",
		".bashrc":                        "_bashrc",
		"-rf":                            "_rf",
		"a\x00b\nc":                      "a_b_c",
		"$(rm -rf) `x` 'y' \"z\" ;|&<>":  "_(rm -rf) _x_ _y_ _z_ _____",
		"invoice\u202Efdp.exe":           "invoice_fdp.exe",
		"bad\xffutf8":                    "bad_utf8",
		"con":                            "_con",
		"NUL.txt":                        "_NUL.txt",
		"com7.log":                       "_com7.log",
		"console.log":                    "console.log",
		"trailing. .":                    "trailing",
		strings.Repeat("é", 100) + ".md": strings.Repeat("é", 58) + ".md",
		strings.Repeat("a", 200):         strings.Repeat("a", 120),
		"a." + strings.Repeat("b", 200):  "a." + strings.Repeat("b", 118),
	} {
		if got := safeName(name); got != want {
			t.Errorf("safeName(%q) = %q, want %q", name, got, want)
		}
	}
}

type fixture struct {
	store *Store
	index *memoryIndex
	dir   string
	clock atomic.Int64
}

func newFixture(t *testing.T, opts Options) *fixture {
	t.Helper()
	f := &fixture{index: &memoryIndex{}, dir: filepath.Join(t.TempDir(), "artifacts")}
	f.clock.Store(time.Now().UnixNano())
	opts.Now = f.now
	store, err := Open(t.Context(), f.dir, f.index, opts)
	if err != nil {
		t.Fatal(err)
	}
	f.store = store
	return f
}

func (f *fixture) now() time.Time          { return time.Unix(0, f.clock.Load()) }
func (f *fixture) advance(d time.Duration) { f.clock.Add(int64(d)) }

func (f *fixture) put(t *testing.T, owner string, kind Kind, text string) toolroom.Artifact {
	t.Helper()
	a, err := f.store.Put(t.Context(), owner, kind, "", "", bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// files lists what is on the disk, sorted.
func (f *fixture) files(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(f.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func wantCode(t *testing.T, want toolroom.Code, f func() error) {
	t.Helper()
	if err := f(); toolroom.CodeOf(err) != want {
		t.Errorf("error %v has code %q, want %q", err, toolroom.CodeOf(err), want)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

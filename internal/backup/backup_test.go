package backup_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/backup"
)

const manifest = `{"format": 1, "store": "toolroom.db"}`

// archive writes an archive with a manifest, a database and one more entry.
func archive(t *testing.T, manifest string, more tar.Header) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	zip := gzip.NewWriter(f)
	w := tar.NewWriter(zip)
	put := func(h tar.Header, text string) {
		h.Size = int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	put(tar.Header{Name: "manifest.json", Mode: 0o600}, manifest)
	put(tar.Header{Name: "store/toolroom.db", Mode: 0o600}, "database")
	if more.Name != "" {
		put(more, "")
	}
	for _, close := range []func() error{w.Close, zip.Close, f.Close} {
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func fine(context.Context, string) error { return nil }

func TestAnArchiveThatReachesOutOfTheHomeChangesNothing(t *testing.T) {
	t.Parallel()
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
	}
	for name, c := range map[string]struct {
		manifest string
		more     tar.Header
		want     string
	}{
		"a path with ..":        {manifest, tar.Header{Name: "home/../../out", Mode: 0o600}, `it contains "home/../../out"`},
		"an absolute path":      {manifest, tar.Header{Name: "/out", Mode: 0o600}, `it contains "/out"`},
		"another folder":        {manifest, tar.Header{Name: "else/x", Mode: 0o600}, `it contains "else/x"`},
		"a link":                {manifest, link("home/x", "/etc"), "neither a file nor a folder"},
		"a database outside":    {`{"format": 1, "store": "../x.db"}`, tar.Header{}, "outside of the home"},
		"the home as database":  {`{"format": 1, "store": "."}`, tar.Header{}, "outside of the home"},
		"a config elsewhere":    {`{"format": 1, "store": "toolroom.db", "config": "/elsewhere/x.yaml"}`, tar.Header{Name: "config/x.yaml", Mode: 0o600}, "the config of the backup was /elsewhere/x.yaml"},
		"a database elsewhere":  {`{"format": 1, "store": "/elsewhere/x.db"}`, tar.Header{}, "the database of the backup was /elsewhere/x.db"},
		"a hidden config":       {manifest, tar.Header{Name: "config/.bashrc", Mode: 0o600}, "hidden"},
		"a file as the home":    {manifest, tar.Header{Name: "home", Mode: 0o600}, `"home" is not a folder`},
		"an endless manifest":   {strings.Repeat(" ", 2<<20) + manifest, tar.Header{}, "manifest.json has 2097"},
		"a later format":        {`{"format": 2, "version": "9.9", "store": "x"}`, tar.Header{}, "of Toolroom 9.9 has format 2"},
		"a file that was there": {manifest, tar.Header{Name: "store/toolroom.db", Mode: 0o600}, "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := filepath.Join(t.TempDir(), "home")
			_, err := backup.Restore(t.Context(), archive(t, c.manifest, c.more), backup.Target{Home: home, Check: fine})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if _, err := os.Lstat(home); err == nil {
				t.Error("the home was made")
			}
		})
	}
}

func TestAMistypedBackupIsNamedOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nope.tar.gz")
	_, err := backup.Restore(t.Context(), file, backup.Target{Home: filepath.Join(t.TempDir(), "home"), Check: fine})
	if toolroom.CodeOf(err) != toolroom.CodeNotFound || strings.Count(err.Error(), "nope") != 1 {
		t.Errorf("%v", err)
	}
}

// The journals of receipts and the end of their chain must not say less than the database
// needs, nor more than it has: they are read first, and what is in both counts once.
func TestTheDatabaseIsSavedAfterWhatLiesBesideIt(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("receipts.head", "before")
	write("receipts.journal/a.0", "1 {}")
	write("toolroom.db", "live")
	write("toolroom.db-wal", "live")
	write("cache/x", "")
	write("packages/layers/d/m.py", "code")
	write("packages/layers/d.lock", "")
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	from := backup.Source{Home: home, Store: filepath.Join(home, "toolroom.db"), Snapshot: func(_ context.Context, path string) error {
		write("receipts.head", "after")
		write("receipts.journal/a.0", "")
		return os.WriteFile(path, []byte("copy"), 0o600)
	}}
	if _, err := backup.Write(t.Context(), file, from, false); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to")
	if _, err := backup.Restore(t.Context(), file, backup.Target{Home: to, Check: fine}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"receipts.head": "before", "receipts.journal/a.0": "1 {}", "toolroom.db": "copy", "packages/layers/d/m.py": "code",
	} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"toolroom.db-wal", "cache", "packages/layers/d.lock"} {
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			t.Errorf("%s was restored", name)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive is %v, %v", info, err)
	}
}

func TestAHomeThatIsALinkIsSaved(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	home := filepath.Join(folder, "link")
	if err := os.Mkdir(filepath.Join(folder, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("home", home); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secrets.json": "sealed", "toolroom.db": "live", "toolroom.db-wal": "live"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	from := backup.Source{Home: home, Store: filepath.Join(home, "toolroom.db"), Snapshot: func(_ context.Context, path string) error {
		return os.WriteFile(path, []byte("copy"), 0o600)
	}}
	if _, err := backup.Write(t.Context(), file, from, false); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "to")
	if _, err := backup.Restore(t.Context(), file, backup.Target{Home: to, Check: fine}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"secrets.json": "sealed", "toolroom.db": "copy"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "toolroom.db-wal")); err == nil {
		t.Error("the log of the database was restored")
	}
}

func TestAFileOfSeveralSourcesIsInABackupOnce(t *testing.T) {
	t.Parallel()
	home, folder := t.TempDir(), t.TempDir()
	config, spec := filepath.Join(folder, "toolroom.yaml"), filepath.Join(folder, "spec.json")
	for _, f := range []string{config, spec} {
		if err := os.WriteFile(f, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := backup.Source{
		Home: home, Store: filepath.Join(home, "toolroom.db"), Config: config,
		Files:    []string{spec, folder + "/./spec.json", "/elsewhere/spec.json", "/elsewhere/spec.json"},
		Snapshot: func(_ context.Context, path string) error { return os.WriteFile(path, []byte("copy"), 0o600) },
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	m, err := backup.Write(t.Context(), file, from, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Missing) != 1 {
		t.Errorf("left out: %v", m.Missing)
	}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	zip, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	for entries := tar.NewReader(zip); ; {
		head, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Name == "config/spec.json" {
			times++
		}
	}
	if times != 1 {
		t.Errorf("the file is in the archive %d times", times)
	}
}

func TestABackupThatFailsLeavesTheEarlierOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "b.tar.gz")
	if err := os.WriteFile(file, []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	from := backup.Source{Home: home, Store: filepath.Join(home, "toolroom.db"), Snapshot: func(context.Context, string) error {
		return os.ErrPermission
	}}
	if _, err := backup.Write(t.Context(), file, from, true); err == nil {
		t.Fatal("no error")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "earlier" {
		t.Errorf("%q, %v", text, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestADatabaseOutsideOfTheHomeIsKeptWhenItIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "data", "x.db")
	was := map[string]string{"x.db": "old", "x.db-wal": "not in it yet", "receipts.head": "end", "receipts.journal/a.0": "1 {}"}
	for name, text := range was {
		path := filepath.Join(dir, "data", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := archive(t, `{"format": 1, "store": "`+filepath.ToSlash(store)+`"}`, tar.Header{})
	done, err := backup.Restore(t.Context(), file, backup.Target{Home: filepath.Join(dir, "home"), Store: store, Force: true, Check: fine})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(store); err != nil || string(got) != "database" {
		t.Errorf("the database is %q, %v", got, err)
	}
	if done.OldStore == "" {
		t.Fatal("it does not say where the earlier database is")
	}
	for name, want := range was {
		if got, err := os.ReadFile(filepath.Join(done.OldStore, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "data", name)); name != "x.db" && err == nil {
			t.Errorf("%s is beside the new database", name)
		}
	}
}

// Restore writes no hidden files, so Write says that it leaves them out. The config is the
// exception: who restores it says where it goes.
func TestABackupWithHiddenFilesCanBeRestored(t *testing.T) {
	t.Parallel()
	home, folder := t.TempDir(), t.TempDir()
	config, spec := filepath.Join(folder, ".toolroom.yaml"), filepath.Join(folder, ".specs", "api.yaml")
	if err := os.Mkdir(filepath.Dir(spec), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{config, spec} {
		if err := os.WriteFile(f, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := backup.Source{
		Home: home, Store: filepath.Join(home, "toolroom.db"), Config: config, Files: []string{spec},
		Snapshot: func(_ context.Context, path string) error { return os.WriteFile(path, []byte("copy"), 0o600) },
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	m, err := backup.Write(t.Context(), file, from, false)
	if err != nil || len(m.Missing) != 1 || m.Missing[0] != spec {
		t.Fatalf("left out: %v, %v", m.Missing, err)
	}
	place := filepath.Join(t.TempDir(), "toolroom.yaml")
	if _, err := backup.Restore(t.Context(), file, backup.Target{Home: filepath.Join(t.TempDir(), "home"), Config: place, Check: fine}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(place); err != nil {
		t.Error(err)
	}
}

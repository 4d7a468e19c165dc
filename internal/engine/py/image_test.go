package py

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/bridge"
	files "github.com/toolroom/toolroom/internal/guest"
)

func TestImagesOfOldBuildsAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{
		"cpython-now.image": 2 * keepImage, "cpython-old.image": 2 * keepImage, "cpython-other.image": time.Hour, "lock": 2 * keepImage,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	removeOtherImages(filepath.Join(dir, "cpython-now.image"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"cpython-now.image", "cpython-other.image", "lock"}, left); diff != "" {
		t.Errorf("what is left differs (-want +got):\n%s", diff)
	}
}

func TestATornImageIsMadeAnew(t *testing.T) {
	t.Parallel()
	_ = open(t).Close()
	// The compiled code is shared; the image is not.
	dir, guest := t.TempDir(), files.PythonFiles()
	shared, err := filepath.Abs(Compiled)
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"wazero-*", "metered-*"} {
		paths, err := filepath.Glob(filepath.Join(shared, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if err := os.Symlink(path, filepath.Join(dir, filepath.Base(path))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(imagePath(dir, guest), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		m, err := NewMachine(t.Context(), guest, dir)
		if err != nil {
			t.Fatal(err)
		}
		if last, end, err := eval(t, isolate(t, m), "1 + 1"); end != Finished || last.Get("value") != bridge.Value(int64(2)) {
			t.Errorf("end %d, %v, %v", end, err, last)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(imagePath(dir, guest)); err != nil || info.Size() < 1<<20 {
		t.Errorf("the image is not kept: %v, %v", info, err)
	}
}

package py

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	forgetOthers(filepath.Join(dir, "cpython-now.image"))
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

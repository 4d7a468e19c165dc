package git

import (
	"os"
	"path/filepath"
	"testing"
)

// Git reads and changes the whole repository wherever in it a call begins.
func TestACallInAFolderOfARepositoryUsesTheRepository(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(top, "a", "b")
	for _, dir := range []string{deep, filepath.Join(top, ".git")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	effects := (&git{}).effects(deep, "commit", ".git")
	if effects[1].Target != top || effects[2].Target != filepath.Join(top, ".git") {
		t.Errorf("%+v", effects)
	}
}

package backup

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk that fills is no change of the file that is being saved.
func TestAFullDiskIsNamedAsTheCause(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &writer{ctx: t.Context(), tar: tar.NewWriter(&fullDisk{})}
	if err := w.copyFile(file, "home/big"); !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "changed") {
		t.Errorf("%v", err)
	}
}

// fullDisk has room for the header of a file only.
type fullDisk struct{ written bool }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.written {
		return 0, syscall.ENOSPC
	}
	d.written = true
	return len(p), nil
}

package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

func TestOnlyFoldersOfDeadProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	alive, err := proc.MkdirTemp(dir, "vm")
	if err != nil {
		t.Fatal(err)
	}
	dead := "toolroom-vm-1-1_42"
	if !strings.Contains(proc.Owner(), "-") { // on a system whose owners are process ids only
		dead = "toolroom-vm-999999999_42"
	}
	kept := []string{filepath.Base(alive), "toolroom-vm-1-1", "toolroom-vm-x-1_42", "another-vm-1-1_42", "toolroom-vm-1-1_42.txt"}
	for _, name := range append(kept[1:], dead) {
		if err := os.MkdirAll(filepath.Join(dir, name, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	open := "toolroom-vm-1-1_43" // anyone could have made it
	if err := os.Mkdir(filepath.Join(dir, open), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, open), 0o777); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, open)
	want := []sandbox.Leftover{{Kind: "folder", Name: filepath.Join(dir, dead)}}
	for _, dry := range []bool{true, false} { // a dry run leaves the folder
		if diff := cmp.Diff(want, proc.CleanFolders(dir, dry)); diff != "" {
			t.Errorf("dry %v, -want +got:\n%s", dry, diff)
		}
	}
	if left := proc.CleanFolders(dir, false); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	for _, name := range kept {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

//go:build unix

package proc

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyAFolderOfThisUserThatOthersCannotWriteToIsOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	folder := func(name string, mode os.FileMode) {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	folder("private", 0o700)
	folder("entered", 0o711)
	folder("group", 0o770)
	folder("all", 0o777)
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("private"), at("link")); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"private": true, "entered": true, "group": false, "all": false, "file": false, "link": false}
	if os.Geteuid() == 0 {
		folder("stranger", 0o700)
		if err := os.Chown(at("stranger"), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want["stranger"] = false
	}
	for name, ours := range want {
		info, err := os.Lstat(at(name))
		if err != nil {
			t.Fatal(err)
		}
		if got := IsOwnFolder(info); got != ours {
			t.Errorf("Ours(%s) = %v", name, got)
		}
	}
}

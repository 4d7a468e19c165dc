package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCleanBelievesNothingInASharedFolder(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	ran := filepath.Join(t.TempDir(), "ran")
	runsc := filepath.Join(t.TempDir(), "runsc")
	if err := os.WriteFile(runsc, []byte("#!/bin/sh\necho \"$@\" >> "+ran+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("a", 26)
	const dead = folderPrefix + "2-1-"
	ours := dead + key
	others := []string{ // name, and what is wrong with it
		dead + "*", dead + "abc", dead + strings.ToUpper(key), dead + key + "-" + key, folderPrefix + "2-1-" + key[1:] + "/",
		folderPrefix + "x-1-" + key, folderPrefix + key,
	}
	for _, name := range append(others, ours) {
		if err := os.MkdirAll(filepath.Join(work, name, "state"), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	open := dead + strings.Repeat("b", 26)
	if err := os.Mkdir(filepath.Join(work, open), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(work, open), 0o777); err != nil {
		t.Fatal(err)
	}
	others = append(others, open)
	if os.Geteuid() == 0 {
		stranger := dead + strings.Repeat("c", 26)
		if err := os.MkdirAll(filepath.Join(work, stranger, "state"), 0o711); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(work, stranger), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		others = append(others, stranger)
	}
	link := dead + strings.Repeat("d", 26)
	if err := os.Symlink(t.TempDir(), filepath.Join(work, link)); err != nil {
		t.Fatal(err)
	}
	others = append(others, link)

	left, err := New(Options{Program: runsc, Work: work}).Clean(t.Context(), false)
	if err != nil || len(left) != 1 || left[0].Name != filepath.Join(work, ours) {
		t.Errorf("cleaned %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(work, ours)); err == nil {
		t.Error("the folder of our dead process is left")
	}
	for _, name := range others {
		if _, err := os.Lstat(filepath.Join(work, name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("runsc was run on a folder that anyone could have made: %s", text)
	}
}

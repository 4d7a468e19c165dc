package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestTheGuestIsCompiledOnceForEachPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cache := t.TempDir()
	first, err := CompilePython(t.Context(), python, cache)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(first, "__pycache__", "guest.*.pyc")); err != nil || len(found) != 1 {
		t.Errorf("compiled: %q, %v", found, err)
	}
	info, err := os.Stat(first)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if again, err := CompilePython(t.Context(), python, cache); err != nil || again != first {
		t.Errorf("once more: %q, %v", again, err)
	}
	// A script that does nothing when asked to compile takes the place of another Python.
	other := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if second, err := CompilePython(t.Context(), other, cache); err != nil || second == first {
		t.Errorf("for another Python: %q, %v", second, err)
	}
	failing := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := CompilePython(t.Context(), failing, cache); err == nil {
		t.Error("the failure of Python is not reported")
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 2 {
		t.Errorf("the cache contains %v, %v", entries, err)
	}
}

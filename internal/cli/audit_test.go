package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestAnExportThatFailsLeavesNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "all.jsonl")
	fails := errors.New("the chain is broken")
	err := writeExport(path, func(out io.Writer) error {
		_, err := io.WriteString(out, "{}\n")
		return errors.Join(err, fails)
	})
	if !errors.Is(err, fails) {
		t.Errorf("got %v, want %v", err, fails)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	if err := writeExport(path, func(io.Writer) error { return nil }); err != nil {
		t.Error(err)
	}
	// A file that was there is neither written nor removed.
	if err := writeExport(path, func(io.Writer) error { return fails }); err == nil || errors.Is(err, fails) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

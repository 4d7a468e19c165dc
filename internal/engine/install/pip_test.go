package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPipThatFindsNothingIsAskedOnceAndToldInWholeLines(t *testing.T) {
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	script := "#!/bin/sh\necho asked >>" + log + "\necho first " + strings.Repeat("x", 500) + "\necho ERROR: No matching distribution found for uv\nexit 1\n"
	for _, name := range []string{"pip3", "pip"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	err := Pip(t.Context(), "uv", "1", "any", t.TempDir())
	if err == nil || !strings.HasSuffix(err.Error(), ": ERROR: No matching distribution found for uv") {
		t.Errorf("got %v", err)
	}
	if asked, _ := os.ReadFile(log); string(asked) != "asked\n" {
		t.Errorf("pip was asked %d times", strings.Count(string(asked), "\n"))
	}
}

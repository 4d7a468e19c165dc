package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheWayOfACallIsOneShortFileAndInheritanceOneContextValue(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	values := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			values += bytes.Count(text, []byte("context.WithValue("))
		}
		if lines := bytes.Count(text, []byte("\n")); name == "call.go" && lines > 400 {
			t.Errorf("call.go has %d lines", lines)
		}
	}
	if values != 1 {
		t.Errorf("the package puts %d kinds of values into contexts, not its scope alone", values)
	}
}

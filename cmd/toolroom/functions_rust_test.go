package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The module was built of the source beside it.
func TestAProgramInRustIsAToolAsAModule(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	folder, err := filepath.Abs(filepath.Join("testdata", "rust", "words"))
	if err != nil {
		t.Fatal(err)
	}
	a.run("fn:words: version 1", "tool", "push", folder)
	a.run("2 cases passed", "tool", "test", "words")
	a.run("prod serves version 1", "tool", "release", "words")
	a.run(`"größe": 1,`, "call", "words", "text=x Größe, X!", "--json")
	if out, code := a.try("call", "words", "text= "); code == 0 || !strings.Contains(out, "the text has no words") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

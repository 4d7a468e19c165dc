package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestTheHistoryOutlivesTheREPLAndIsItsUsersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history")
	h, err := openHistory(path)
	if err != nil || h.Len() != 0 {
		t.Fatalf("a new history has %d lines, %v", h.Len(), err)
	}
	for _, line := range []string{"const a = 1", "a", "a", "  ", strings.Repeat("x", maxHistoryLine+1), "a + 1"} {
		h.Add(line)
	}
	if err := h.save(); err != nil {
		t.Fatal(err)
	}
	again, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range again.Len() {
		got = append(got, again.At(i))
	}
	if want := "a + 1|a|const a = 1"; strings.Join(got, "|") != want {
		t.Errorf("got %q, newest first; want %q", got, want)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
}

func TestAHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := &history{}
	for i := range maxHistoryLines + 10 {
		h.Add(fmt.Sprint(i))
	}
	if h.Len() != maxHistoryLines || h.At(0) != fmt.Sprint(maxHistoryLines+9) || h.At(h.Len()-1) != "10" {
		t.Errorf("%d lines, from %q to %q", h.Len(), h.At(h.Len()-1), h.At(0))
	}
}

func TestAProgramGoesOnOverLinesUntilItIsWhole(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		language string
		text     string
		whole    bool
	}{
		{"js", "a + 1", true},
		{"js", "function f() {", false},
		{"js", "f(`", false},
		{"js", "f('(') // (", true},
		{"python", "a + 1", true},
		{"python", "# a comment with (", true},
		{"python", "f([1,", false},
		{"python", "def f(n):", false},
		{"python", "def f(n):\n    return n", false},
		{"python", "def f(n):\n    return n\n", true},
		{"python", "def f(n): return n", true},
		{"python", "d = {'a': 1}", true},
		{"python", "if a:  # a comment", false},
		{"python", "if a:\n    b()\nelse:", false},
		{"python", "if a:\n    b()\nelse:\n    c()\n", true},
		{"python", "@cached", false},
		{"python", "text = '''one", false},
		{"python", "text = '''one\ntwo'''", true},
		{"python", "a = 1 + \\", false},
		{"python", "url = 'http://x'", true},
	} {
		if got := isComplete(test.language, test.text); got != test.whole {
			t.Errorf("%s %q: whole is %v", test.language, test.text, got)
		}
	}
}

package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

// A match that spans lines was looked for again from each line: minutes for this file.
func TestMatchesStayWithinLines(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("q.txt", strings.Repeat("a\n", 100_000)+"z\nabz\n")
	got, _, err := k.call("search", map[string]any{"query": "[ab][^z]*[zq]", "path": "q.txt"})
	if err != nil || len(got["matches"].([]any)) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	for query, want := range map[string]int{`^z$`: 1, `\Az\z`: 1, `z\sa`: 0, `(?s)z.a`: 0, `\n`: 0, `\D{2}z`: 1} {
		got, _, err := k.call("search", map[string]any{"query": query, "path": "q.txt"})
		matches, _ := got["matches"].([]any)
		if err != nil || len(matches) != want {
			t.Errorf("%s: %v, %v, want %d", query, got, err, want)
		}
	}
}

func TestReadingAnEndlessLineEnds(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("sparse", "first\n")
	if err := os.Truncate(filepath.Join(k.dir, "sparse"), 1<<40); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err) // the file system knows no sparse files of this size
	}
	got, _, err := k.call("read", map[string]any{"path": "sparse", "encoding": "utf8", "limit": 1})
	if err != nil || got["content"] != "first\n" || got["total_lines"] != nil {
		t.Errorf("%.200v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := k.pack.Call(ctx, request("read", "", map[string]any{"path": "sparse", "encoding": "utf8", "offset": 1000})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled call returned %v", err)
	}
}

func TestTheHelpForAMissedSearchIsBounded(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	line := strings.Repeat("abcdefghi ", 99)
	k.put("big.txt", strings.Repeat(line+"\n", 8000))
	_, _, err := k.call("edit", map[string]any{"path": "big.txt", "search": strings.Repeat(strings.ToUpper(line)+"\n", 40), "replace": "x"})
	if toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Error(err)
	}
}

func TestFilesOfGitAreNotChanged(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put(".git/config", "[core]\n")
	k.put("sub/.git/hooks/x", "")
	for _, path := range []string{".git/config", ".git/hooks/pre-commit", "sub/.git/hooks/x", ".GIT/config2"} {
		if _, _, err := k.call("write", map[string]any{"path": path, "content": "x"}); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("write %s: %v", path, err)
		}
	}
	if _, _, err := k.call("edit", map[string]any{"path": ".git/config", "search": "core", "replace": "x"}); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Error(err)
	}
	if _, _, err := k.call("write", map[string]any{"path": ".gitignore", "content": "x"}); err != nil {
		t.Error(err)
	}
	if got, _, err := k.call("read", map[string]any{"path": ".git/config"}); err != nil || got["content"] != "[core]\n" {
		t.Errorf("%v, %v", got, err)
	}
}

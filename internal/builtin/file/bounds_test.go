package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// Lines of SQL and Lua begin with --, and some of C with ++.
func TestLinesThatLookLikeTheHeadOfADiffAreCounted(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("a.sql", "-- all of them\nselect 1;\n")
	value, _, err := k.call("write", map[string]any{"path": "a.sql", "content": "++i;\nselect 1;\n"})
	if err != nil || value["added"] != 1.0 || value["removed"] != 1.0 {
		t.Errorf("added %v, removed %v, %v", value["added"], value["removed"], err)
	}
}

func TestAFileThatWasTooLargeToKeepIsNotRestoredAsAnEmptyOne(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.put("large", "")
	if err := os.Truncate(filepath.Join(k.dir, "large"), 33<<20); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.call("write", map[string]any{"path": "large", "content": ""}); err != nil {
		t.Fatal(err)
	}
	if _, text, err := k.call("undo", map[string]any{}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("undo: %q, %v", text, err)
	}
}

// Each call beyond the ones that are kept removes the oldest.
func TestManyWritesOfASessionAtOnceSucceed(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for i := range 60 {
		if _, _, err := k.call("write", map[string]any{"path": "before", "content": strings.Repeat("x", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			for n := range 20 {
				if _, err := k.pack.Call(t.Context(), request("write", "", map[string]any{"path": fmt.Sprint("f", i), "content": fmt.Sprint(n)})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
}

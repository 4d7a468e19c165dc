package file

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/folder"
)

func TestAnExpressionFindsTheSameInPieces(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 999) + "\n"
	for _, query := range []string{"NEE+DLE$", "^NEEDLE", "^$", "(?:a|b)z", `\bNEEDLE\b`} {
		m, err := newMatcher(SearchArgs{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		for _, needle := range []string{"NEEDLE\n", "\n", "az\n", "nothing\n", "NEEDLE"} {
			for _, lines := range []int{0, 64, 65, 66, 131, 200} {
				text := []byte(strings.Repeat(line, lines) + needle + strings.Repeat(line, 70))
				want := -1
				if at := m.re.FindIndex(text); at != nil {
					want = at[0]
				}
				if got := m.find(t.Context(), text); got != want {
					t.Errorf("%s: %q after %d lines is found at %d, want %d", query, needle, lines, got, want)
				}
			}
		}
	}
}

// A regular expression cannot be interrupted, so it never gets more than a piece of a text.
func TestASearchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m, err := newMatcher(SearchArgs{Query: "(?:a|b)z"})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	text := append(bytes.Repeat([]byte("x"), 3*maxPiece), "az"...) // one line
	if at := m.find(ended, text); at != -1 {
		t.Errorf("found at %d", at)
	}
	if at := m.find(t.Context(), text); at != 3*maxPiece {
		t.Errorf("found at %d, want %d", at, 3*maxPiece)
	}
}

func TestALongLineIsNotCut(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", maxPiece-3)
	for query, want := range map[string]int{
		"NE+DLE": len(half), "^NE+DLE": -1, "NE+DLE$": -1, "^x": 0, "^.NE": -1, "Ex*$": len(half) + 5, `\bx`: 0, `\bN`: -1, "(?i)needlex": len(half), "^y": len(half) + 107,
	} {
		m, err := newMatcher(SearchArgs{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.find(t.Context(), []byte(half+"NEEDLE"+strings.Repeat("x", 100)+"\ny")); got != want {
			t.Errorf("%s is found at %d, want %d", query, got, want)
		}
	}
}

func TestASearchInALongLineEnds(t *testing.T) {
	t.Parallel()
	m, err := newMatcher(SearchArgs{Query: "x$"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	read := &cancellableRunes{Reader: bytes.NewReader(bytes.Repeat([]byte("x"), 3*maxPiece)), ended: func() error { end(); return ctx.Err() }}
	if m.re.FindReaderIndex(read); read.Len() < 2*maxPiece {
		t.Errorf("%d bytes are left", read.Len())
	}
}

// A rule may forbid the place that the folder was moved to.
func TestASearchFindsNothingInAFolderThatIsMovedMeanwhile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	sub := filepath.Join(root, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "a.txt"), []byte("needle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folders, err := folder.Open([]string{root}, folder.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &files{Folders: folders}
	move := func(string) bool {
		if err := os.Rename(sub, filepath.Join(root, "private")); err != nil {
			t.Error(err)
		}
		return false
	}
	if _, err := f.find(t.Context(), SearchArgs{Query: "needle", Path: "sub"}, move); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("got %v", err)
	}
}

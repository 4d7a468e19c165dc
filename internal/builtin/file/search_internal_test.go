package file

import (
	"bytes"
	"context"
	"strings"
	"testing"
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

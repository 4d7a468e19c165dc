package artifact

import (
	"context"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Matches are found one by one, so that a search can end between them.
func TestAllMatchesAreFoundOneByOne(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "ab ab\nb ä\xff\xffab", "aaa  aaa", "äöü ä", "\xc3\xc3 a\n\na"}
	for _, pattern := range []string{"a", "a*", "", `\b`, `\B`, "^a", "(?m)^", "(?m)^a", "a$", `\ba`, "ab|b", "b|ab", ".", "(?s).", "[^a]*", "a|", "|a", ".*Z|a", `(?i)Ä`, `\z`, `\x{fffd}`} {
		g := &grep{pattern: regexp.MustCompile(pattern), next: regexp.MustCompile("(?s:.)(?:" + pattern + ")")}
		for _, text := range texts {
			var got [][]int
			for at := range g.allMatches(t.Context(), []byte(text)) {
				got = append(got, at)
			}
			if diff := cmp.Diff(g.pattern.FindAllIndex([]byte(text), -1), got); diff != "" {
				t.Errorf("%q in %q: -want +got\n%s", pattern, text, diff)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		for range g.allMatches(ctx, []byte("aab")) {
			n++
			cancel()
		}
		cancel()
		if n > 1 {
			t.Errorf("%q: %d matches after the end", pattern, n)
		}
	}
}

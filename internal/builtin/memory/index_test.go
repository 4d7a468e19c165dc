package memory

import (
	"fmt"
	"strings"
	"testing"
)

// TestWordsOfRemovedTextsDoNotStayForEver writes other words to one note again and again.
func TestWordsOfRemovedTextsDoNotStayForEver(t *testing.T) {
	t.Parallel()
	x := &index{store: store{t.TempDir()}}
	const each = 50_000
	for i := range 8 {
		err := x.store.change(t.Context(), "ada", "note", func(string) (string, error) {
			var b strings.Builder
			for j := range each {
				fmt.Fprintf(&b, "w%dx%d ", i, j)
			}
			return b.String() + strings.Repeat(" ", i), nil // of another size
		})
		if err != nil {
			t.Fatal(err)
		}
		hits, _, err := x.search(t.Context(), "ada", fmt.Sprintf("w%dx7", i), "", 1, true)
		if err != nil || len(hits) != 1 {
			t.Fatalf("round %d: %v, %v", i, hits, err)
		}
	}
	if got, most := len(x.of("ada").terms), each+2*maxDropped+2*each; got > most {
		t.Errorf("%d words are kept of a note with %d, want at most %d", got, each, most)
	}
}

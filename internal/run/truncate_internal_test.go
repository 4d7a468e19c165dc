package run

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// checkCut reports what is wrong with a cut: its parts are the whole, and show
// at most limit bytes of it, without a broken character.
func checkCut(t *testing.T, text string, limit int) {
	t.Helper()
	head, hidden, tail := splitToFit(text, limit)
	shown := len(head) + len(tail)
	switch {
	case hidden < 0 || shown+hidden != len(text) || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail):
		t.Errorf("limit %d of %d bytes: head %d, hidden %d, tail %d", limit, len(text), len(head), hidden, len(tail))
	case len(text) <= limit && hidden != 0:
		t.Errorf("a text of %d bytes is cut at %d", len(text), limit)
	case len(text) > max(limit, 0) && (hidden == 0 || shown > max(limit, 0)):
		t.Errorf("%d bytes of %d are shown, %d hidden, the limit is %d", shown, len(text), hidden, limit)
	case utf8.ValidString(text) && (!utf8.ValidString(head) || !utf8.ValidString(tail)):
		t.Errorf("a character is broken by limit %d of %d bytes", limit, len(text))
	}
}

func TestACutIsRightForEveryLengthAndLimit(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{"x", `"`, "\n", "\x00", "ż", "漢", "🙂", "\x80", "a\xff", "e\u0301漢\\"} {
		whole := strings.Repeat(piece, 40)
		for length := range min(len(whole), 40) + 1 {
			for limit := -1; limit <= length+2; limit++ {
				checkCut(t, whole[:length], limit)
			}
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("", 0)
	f.Add(strings.Repeat(`"`, 100), 75)
	f.Add("żółw🙂\x80\x80\x80\x80\x80", 7)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		checkCut(t, text, limit)
		checkCut(t, text, len(text)-1)
	})
}

package cli

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLinesAreSentAsTheyAreAndLongOnesInPieces(t *testing.T) {
	for _, text := range []string{"", "a", "a\n", "a\nb", strings.Repeat("x", maxLine) + "\n", strings.Repeat("漢", maxLine) + "\nend", strings.Repeat("🙂", maxLine), "é" + strings.Repeat("\x80", 2*maxLine)} {
		var pieces []string
		sendLines(strings.NewReader(text), func(piece string) {
			if len(piece) > maxLine+utf8.UTFMax || utf8.ValidString(text) && !utf8.ValidString(piece) {
				t.Errorf("a piece of %d bytes, valid %v", len(piece), utf8.ValidString(piece))
			}
			pieces = append(pieces, piece)
		})
		if strings.Join(pieces, "") != text {
			t.Errorf("%d bytes came as %d", len(text), len(strings.Join(pieces, "")))
		}
	}
}

// zeros is output without line ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestOutputWithoutLineEndsTakesNoMemory(t *testing.T) {
	const size = 256 << 20
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	stdout := &capture{most: maxOutput}
	pieces := 0
	sendLines(io.TeeReader(io.LimitReader(zeros{}, size), stdout), func(string) {
		if pieces++; pieces%512 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
		}
	})
	if stdout.dropped != size-maxOutput || most > 8*maxOutput {
		t.Errorf("%d bytes were dropped, and %d MiB used", stdout.dropped, most>>20)
	}
}

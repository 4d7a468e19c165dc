package cli

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/jsonx"
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
	stdout := &capture{limit: maxOutput}
	pieces := 0
	sendLines(io.TeeReader(io.LimitReader(zeros{}, size), stdout), func(string) {
		if pieces++; pieces%512 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
		}
	})
	if stdout.dropped != size-maxOutput/6 || most > 8*maxOutput {
		t.Errorf("%d bytes were dropped, and %d MiB used", stdout.dropped, most>>20)
	}
}

// A control character has six bytes in JSON, and each result is copied several times.
func TestWhatIsKeptOfAnOutputIsLimitedAsJSON(t *testing.T) {
	t.Parallel()
	c := &capture{limit: 1 << 20}
	piece := []byte(strings.Repeat("\x00\x1b\"\n", 8<<10))
	for range 100 {
		if n, err := c.Write(piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	text, err := jsonx.Marshal(c.text())
	if err != nil || len(text) > 1<<20+2 || len(text) < 1<<20-8 {
		t.Errorf("%d bytes of JSON, %v", len(text), err)
	}
	if got := int64(c.kept.Len()) + c.dropped; got != int64(100*len(piece)) {
		t.Errorf("%d bytes are counted, not %d", got, 100*len(piece))
	}
	if _, _ = c.Write([]byte("x")); strings.HasSuffix(c.text(), "x") {
		t.Error("what comes after a gap is kept")
	}
}

package proc_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
)

func TestATailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	small := &proc.Tail{Limit: 4}
	for _, text := range []string{"a", "", "bcd", "efghijk", "l"} {
		if n, err := io.WriteString(small, text); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if got := small.String(); got != "ijkl" {
		t.Errorf("the tail is %q", got)
	}
	var usual proc.Tail
	_, _ = io.WriteString(&usual, strings.Repeat("x", 9<<10))
	if got := len(usual.String()); got != 8<<10 {
		t.Errorf("the tail has %d bytes", got)
	}
}

func TestLastWaitsForTheEndOfTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := proc.Follow(func(to io.Writer) {
			time.Sleep(time.Millisecond)
			_, _ = io.WriteString(to, "last words")
		})
		if got := late.Last(t.Context()); got != "last words" {
			t.Errorf("the follower read %q", got)
		}
		open, end := io.Pipe()
		held := proc.Follow(func(to io.Writer) { _, _ = io.Copy(to, open) })
		_, _ = io.WriteString(end, "held open")
		if got := held.Last(t.Context()); got != "held open" {
			t.Errorf("of a stream that does not end the follower read %q", got)
		}
		end.Close()
	})
	if got := (*proc.Follower)(nil).Last(t.Context()); got != "" {
		t.Errorf("a nil follower returned %q", got)
	}
}

package proc_test

import (
	"io"
	"strings"
	"testing"

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
		t.Errorf("it kept %q", got)
	}
	var usual proc.Tail
	_, _ = io.WriteString(&usual, strings.Repeat("x", 9<<10))
	if got := len(usual.String()); got != 8<<10 {
		t.Errorf("it kept %d bytes", got)
	}
}

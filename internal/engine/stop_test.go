package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
)

func TestAProgramOverItsTimeIsToldTheLimit(t *testing.T) {
	t.Parallel()
	got := engine.WithTime(engine.TimedOut(), "the function", 1500*time.Millisecond)
	if got == nil || toolroom.CodeOf(got) != toolroom.CodeTimeout || !strings.Contains(got.Error(), "the function was stopped: its time was over (limit: 1.5s)") {
		t.Errorf("got %v", got)
	}
	other := engine.Cancelled()
	if got := engine.WithTime(other, "the program", time.Second); got != error(other) {
		t.Errorf("another error became %v", got)
	}
	if got := engine.WithTime(nil, "the program", time.Second); got != nil {
		t.Errorf("no error became %v", got)
	}
}

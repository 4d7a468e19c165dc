package run

import (
	"testing"
	"time"
)

func TestPausesDoubleUpToTheMaximumAndVaryByAQuarter(t *testing.T) {
	t.Parallel()
	l := RetryLimits{Base: 100 * time.Millisecond, Max: time.Second}
	for attempt, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 1000: time.Second,
	} {
		seen := map[time.Duration]bool{}
		for range 100 {
			got := l.pause(attempt)
			if got < want*3/4 || got > want*5/4 {
				t.Errorf("after attempt %d: %v, want about %v", attempt, got, want)
			}
			seen[got] = true
		}
		if len(seen) < 2 {
			t.Errorf("after attempt %d the pause does not vary", attempt)
		}
	}
}

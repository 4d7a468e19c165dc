package run

import (
	"testing"
	"time"
)

func TestNoPauseIsLongerThanTheLongest(t *testing.T) {
	t.Parallel()
	for _, l := range []RetryLimits{{Base: time.Minute, Max: time.Second}, {Base: time.Second, Max: time.Second}, {Base: time.Millisecond, Max: time.Second}} {
		for attempt := 1; attempt < 50; attempt++ {
			if pause := l.pause(attempt); pause > l.Max || pause <= 0 {
				t.Fatalf("%+v: the pause after attempt %d is %s", l, attempt, pause)
			}
		}
	}
}

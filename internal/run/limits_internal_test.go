package run

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestRateLimitersAreForgottenOnceTheyWouldBeFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuckets(RateLimits{PerSecond: 1, Burst: 10})
		busy := bucketKey{owner: "busy"}
		began := time.Now()
		taken := 0
		for i := range 100_000 {
			b.get(bucketKey{owner: fmt.Sprint(i)}).Reserve() // not full afterwards
			if i%100 == 0 {
				if b.get(busy).Allow() {
					taken++
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		if kept := len(b.recent) + len(b.past); kept > 21_000 {
			t.Errorf("%d limiters are kept", kept)
		}
		// Neither a new bucket nor a lost one changes the rate.
		if most := 10 + int(time.Since(began)/time.Second); taken < most-1 || taken > most {
			t.Errorf("%d calls were let through, not %d", taken, most)
		}
	})
}

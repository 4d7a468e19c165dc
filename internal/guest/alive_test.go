//go:build unix

package guest

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAGuestEndsOnceItsServerIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := time.Time{}
		began := time.Now()
		w := newWatchdog(AliveTimeout, func() { ended = time.Now() })
		for range 10 {
			time.Sleep(AliveTimeout - time.Second)
			w.noteActivity()
		}
		w.extend(time.Minute) // the program takes nothing for a while
		time.Sleep(AliveTimeout + time.Second)
		synctest.Wait()
		if !ended.IsZero() {
			t.Fatalf("it ended after %v though its server lives", ended.Sub(began))
		}
		w.noteActivity()
		time.Sleep(AliveTimeout)
		synctest.Wait()
		if ended.IsZero() {
			t.Error("it lives on without a server")
		}
	})
	var none *watchdog
	none.noteActivity()
	none.extend(time.Second)
}

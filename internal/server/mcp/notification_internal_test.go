package mcp

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A server may change a resource faster than a slow client is told.
func TestNoticesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ns notificationQueue
		slow := make(chan struct{})
		var told, same atomic.Int64
		ns.add(queuedNotification{send: func() { <-slow }})
		synctest.Wait()
		for range 10 {
			ns.add(queuedNotification{key: "a:x", send: func() { same.Add(1) }})
		}
		for i := range 1000 {
			ns.add(queuedNotification{key: strconv.Itoa(i), send: func() { told.Add(1) }})
		}
		close(slow)
		synctest.Wait()
		if same.Load() != 1 || told.Load() != maxQueuedNotifications-1 {
			t.Errorf("one resource was told %d times, others %d times", same.Load(), told.Load())
		}
		ns.add(queuedNotification{send: func() { told.Store(0) }})
		synctest.Wait()
		if told.Load() != 0 {
			t.Error("a notice after the others was not told")
		}
	})
}

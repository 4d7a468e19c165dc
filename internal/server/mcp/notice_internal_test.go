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
		var ns notices
		slow := make(chan struct{})
		var told, same atomic.Int64
		ns.add(notice{tell: func() { <-slow }})
		synctest.Wait()
		for range 10 {
			ns.add(notice{key: "a:x", tell: func() { same.Add(1) }})
		}
		for i := range 1000 {
			ns.add(notice{key: strconv.Itoa(i), tell: func() { told.Add(1) }})
		}
		close(slow)
		synctest.Wait()
		if same.Load() != 1 || told.Load() != maxNotices-1 {
			t.Errorf("one resource was told %d times, others %d times", same.Load(), told.Load())
		}
		ns.add(notice{tell: func() { told.Store(0) }})
		synctest.Wait()
		if told.Load() != 0 {
			t.Error("a notice after the others was not told")
		}
	})
}

package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// mark is a worker that does nothing.
type mark struct{ number int }

func (*mark) Isolation() string { return "wasm" }
func (*mark) End()              {}

func TestReachStartsOnlyTheFirstWorker(t *testing.T) {
	t.Parallel()
	started := 0
	pool := worker.NewPool("js", 2, func(context.Context) (*mark, error) {
		started++
		return &mark{started}, nil
	})
	defer pool.Close()
	if reach, err := pool.ProbeIsolation(t.Context()); err != nil || reach != "wasm" || started != 1 {
		t.Fatalf("the first Reach returned %q (%v), with %d workers", reach, err, started)
	}
	w, err := pool.Acquire(t.Context(), "ann")
	if err != nil || w.number != 1 {
		t.Fatalf("the first run got worker %v (%v), not the one that waits", w, err)
	}
	pool.Release(w, true) // now it belongs to ann
	if _, err := pool.ProbeIsolation(t.Context()); err != nil || started != 1 {
		t.Errorf("another Reach started a worker: there are %d (%v)", started, err)
	}
}

func TestAPoolIsNeverLargerThanItsSize(t *testing.T) {
	t.Parallel()
	const size = 8
	var live, most atomic.Int64
	pool := worker.NewPool("js", size, func(context.Context) (*counted, error) {
		n := live.Add(1)
		for {
			before := most.Load()
			if n <= before || most.CompareAndSwap(before, n) {
				break
			}
		}
		time.Sleep(10 * time.Millisecond) // others start meanwhile
		return &counted{live: &live}, nil
	})
	defer pool.Close()
	run := func(owner string, n int) {
		var all []*counted
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				w, err := pool.Acquire(t.Context(), owner)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, w)
			})
		}
		wg.Wait()
		for _, w := range all {
			pool.Release(w, true)
		}
	}
	run("ann", size-1)
	run("bob", size)
	if live.Load() > size || most.Load() > size+1 { // one ends while another starts
		t.Errorf("%d workers live, there were %d", live.Load(), most.Load())
	}
}

// counted is a worker that counts how many there are.
type counted struct{ live *atomic.Int64 }

func (*counted) Isolation() string { return "wasm" }
func (c *counted) End()            { c.live.Add(-1) }

// late is a worker that takes its time to end.
type late struct{ ended atomic.Bool }

func (*late) Isolation() string { return "wasm" }

func (l *late) End() {
	time.Sleep(50 * time.Millisecond)
	l.ended.Store(true)
}

func TestCloseWaitsForAWorkerThatWasBeingStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, starting, goOn := &late{}, make(chan struct{}), make(chan struct{})
		open := errors.New("the pool starts workers")
		var second atomic.Bool
		pool := worker.NewPool("js", 2, func(context.Context) (*late, error) {
			if second.Swap(true) {
				return nil, open
			}
			close(starting)
			<-goOn
			return w, nil
		})
		acquired := make(chan error, 1)
		go func() {
			_, err := pool.Acquire(t.Context(), "ann")
			acquired <- err
		}()
		<-starting
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := pool.Acquire(ctx, "bob"); err == nil || errors.Is(err, open) {
			t.Errorf("a closing pool started a worker: %v", err)
		}
		select {
		case <-closed:
			t.Error("Close has not waited for the start")
		default:
		}
		close(goOn)
		if err := <-acquired; toolroom.CodeOf(err) != toolroom.CodeCancelled {
			t.Errorf("a worker of a closed pool: %v", err)
		}
		<-closed
		if !w.ended.Load() {
			t.Error("Close returned while the worker lived")
		}
	})
}

package cpython

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Inbox holds the bytes that wait for the guest. It takes any number of them,
// so that whoever fills it always gets to see a cancellation.
type Inbox struct {
	mu        sync.Mutex
	pieces    [][]byte
	filled    chan struct{} // holds one token when there may be bytes
	cancelled atomic.Bool
}

// NewInbox makes an empty inbox.
func NewInbox() *Inbox { return &Inbox{filled: make(chan struct{}, 1)} }

// Put adds bytes, which the inbox owns from then on.
func (b *Inbox) Put(bytes []byte) {
	b.mu.Lock()
	b.pieces = append(b.pieces, bytes)
	b.mu.Unlock()
	b.wake()
}

// Cancel ends the run, also one that computes and reads nothing.
func (b *Inbox) Cancel() {
	b.cancelled.Store(true)
	b.wake()
}

func (b *Inbox) wake() {
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// read moves bytes into to, and tells how many.
func (b *Inbox) read(to []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < len(to) && len(b.pieces) > 0 {
		moved := copy(to[n:], b.pieces[0])
		n += moved
		if b.pieces[0] = b.pieces[0][moved:]; len(b.pieces[0]) == 0 {
			b.pieces = b.pieces[1:]
		}
	}
	return n
}

func (b *Inbox) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, piece := range b.pieces {
		n += len(piece)
	}
	return n
}

// wait waits until there are bytes, and tells whether there are; false after a
// cancellation and when the time is over. Below zero it waits without end.
func (b *Inbox) wait(ctx context.Context, atMost time.Duration) bool {
	var over <-chan time.Time
	if atMost >= 0 {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		over = timer.C
	}
	for {
		if b.cancelled.Load() {
			return false
		}
		if b.size() > 0 {
			return true
		}
		select {
		case <-b.filled:
		case <-over:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

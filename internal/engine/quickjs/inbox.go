package quickjs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Inbox holds the frames that wait for the guest. It takes any number of them,
// so that whoever fills it always gets to see a cancellation.
type Inbox struct {
	mu        sync.Mutex
	frames    [][]byte
	filled    chan struct{} // holds one token when there may be frames
	cancelled atomic.Bool
}

// NewInbox makes an empty inbox.
func NewInbox() *Inbox { return &Inbox{filled: make(chan struct{}, 1)} }

// Put adds a frame, which the inbox owns from then on.
func (b *Inbox) Put(frame []byte) {
	b.mu.Lock()
	b.frames = append(b.frames, frame)
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

func (b *Inbox) take() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) == 0 {
		return nil
	}
	frame := b.frames[0]
	b.frames = b.frames[1:]
	return frame
}

// wait waits for a frame, a cancellation, or the end of a time.
func (b *Inbox) wait(ctx context.Context, atMost time.Duration) ([]byte, bool) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		if frame := b.take(); frame != nil || b.cancelled.Load() {
			return frame, frame != nil
		}
		select {
		case <-b.filled:
		case <-timer.C:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
}

// First is the frame that will be delivered next, nil if there is none.
func (b *Inbox) First() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) == 0 {
		return nil
	}
	return b.frames[0]
}

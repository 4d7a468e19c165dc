package wasm

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Inbox queues the messages for the guest of one run. It is unbounded, so that the
// goroutine that fills it never blocks and always sees a cancellation.
type Inbox[T any] struct {
	// Pull, if set, fills the inbox from the goroutine of the run, and waits until
	// there is a message, so that no other goroutine has to wake. Its error means
	// that no message will come.
	Pull func() error
	// Listen, if set, is called once, from the goroutine of the run, when the run has
	// computed for some milliseconds, or waits without a Pull or for a limited time.
	// From then on another goroutine fills the inbox and sees cancellations, and Pull
	// is not called any more.
	Listen    func()
	listening bool // used only by the goroutine of the run

	mu        sync.Mutex
	messages  []T
	filled    chan struct{} // holds one token when there may be messages
	cancelled atomic.Bool
}

// NewInbox returns an empty inbox.
func NewInbox[T any]() *Inbox[T] { return &Inbox[T]{filled: make(chan struct{}, 1)} }

// Put adds a message, which then belongs to the inbox.
func (b *Inbox[T]) Put(message T) {
	b.mu.Lock()
	b.messages = append(b.messages, message)
	b.mu.Unlock()
	b.wake()
}

// Cancel ends the run, even if it computes and reads nothing.
func (b *Inbox[T]) Cancel() {
	b.cancelled.Store(true)
	b.wake()
}

// Cancelled reports whether Cancel was called.
func (b *Inbox[T]) Cancelled() bool { return b.cancelled.Load() }

func (b *Inbox[T]) wake() {
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// Computing is called from the goroutine of the run when the program computes, so
// that another goroutine must listen for it.
func (b *Inbox[T]) Computing() {
	if b.Listen != nil && !b.listening {
		b.listening = true
		b.Listen()
	}
}

// Take removes and returns the first message, if there is one.
func (b *Inbox[T]) Take() (message T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 {
		return message, false
	}
	message = b.messages[0]
	b.messages = b.messages[1:]
	return message, true
}

// Wait waits for a message, a cancellation, or a timeout.
func (b *Inbox[T]) Wait(ctx context.Context, atMost time.Duration) (message T, ok bool) {
	if b.Pull != nil && !b.listening && atMost > maxWait {
		return b.pull()
	}
	b.Computing()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		if message, ok = b.Take(); ok || b.Cancelled() {
			return message, ok
		}
		select {
		case <-b.filled:
		case <-timer.C:
			return message, false
		case <-ctx.Done():
			return message, false
		}
	}
}

// maxWait is longer than any run, which the server cancels earlier.
const maxWait = time.Hour

func (b *Inbox[T]) pull() (message T, ok bool) {
	for {
		if message, ok = b.Take(); ok || b.Cancelled() {
			return message, ok
		}
		if b.Pull() != nil {
			return message, false
		}
	}
}

// Sleep waits for a cancellation or a timeout, even if messages arrive.
func (b *Inbox[T]) Sleep(ctx context.Context, d time.Duration) {
	b.Computing()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !b.Cancelled() {
		select {
		case <-b.filled: // Wait checks the messages before it waits for another
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Package mailbox has what waits for a guest that runs one program at a time.
package mailbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Inbox holds what waits for the guest of one run. It takes any number of
// messages, so that whoever fills it always gets to see a cancellation.
type Inbox[T any] struct {
	// Pull, if set, fills the inbox on the goroutine of the run, which waits until
	// there is a message: no other has to be woken. Its error says that none will come.
	Pull func() error
	// Listen, if set, is called once, from the goroutine of the run, when that has
	// computed for some milliseconds, or waits and there is no Pull, or not longer than
	// for a time: from then on another fills the inbox, and sees cancellations, and Pull
	// is not called any more.
	Listen    func()
	listening bool // belongs to the goroutine of the run

	mu        sync.Mutex
	messages  []T
	filled    chan struct{} // holds one token when there may be messages
	cancelled atomic.Bool
}

// New makes an empty inbox.
func New[T any]() *Inbox[T] { return &Inbox[T]{filled: make(chan struct{}, 1)} }

// Put adds a message, which the inbox owns from then on.
func (b *Inbox[T]) Put(message T) {
	b.mu.Lock()
	b.messages = append(b.messages, message)
	b.mu.Unlock()
	b.wake()
}

// Cancel ends the run, also one that computes and reads nothing.
func (b *Inbox[T]) Cancel() {
	b.cancelled.Store(true)
	b.wake()
}

// Cancelled tells whether Cancel was called.
func (b *Inbox[T]) Cancelled() bool { return b.cancelled.Load() }

func (b *Inbox[T]) wake() {
	select {
	case b.filled <- struct{}{}:
	default:
	}
}

// Computing says, from the goroutine of the run, that it computes: another has
// to listen for it.
func (b *Inbox[T]) Computing() {
	if b.Listen != nil && !b.listening {
		b.listening = true
		b.Listen()
	}
}

// Take gives the first message, if there is one.
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

// Wait waits for a message, a cancellation, or the end of a time.
func (b *Inbox[T]) Wait(ctx context.Context, atMost time.Duration) (message T, ok bool) {
	if b.Pull != nil && !b.listening && atMost > long {
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

// long is a time that no run has: before that its host cancels it.
const long = time.Hour

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

// Sleep waits for a cancellation or the end of a time, whatever comes
// meanwhile.
func (b *Inbox[T]) Sleep(ctx context.Context, d time.Duration) {
	b.Computing()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !b.Cancelled() {
		select {
		case <-b.filled: // Wait looks at the messages before it waits for another
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

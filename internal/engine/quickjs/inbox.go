package quickjs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Frame is one message to or from the guest.
type Frame struct {
	Kind, ID uint32
	// Body is JSON when Text is set: then the guest gets a string, else bytes.
	Body []byte
	Text bool
}

// Inbox holds the frames that wait for the guest. It takes any number of them,
// so that whoever fills it always gets to see a cancellation.
type Inbox struct {
	// Pull, if set, fills the inbox on the goroutine of the run, which waits for it:
	// no other has to be woken. It returns after a frame; its error says that none
	// came in the given time, or none will come.
	Pull func(atMost time.Duration) error
	// Listen, if set, is called once, from the goroutine of the run, when that has
	// computed for some milliseconds, or waits and there is no Pull: from then on
	// another fills the inbox, and sees cancellations, and Pull is not called any more.
	Listen    func()
	listening bool // belongs to the goroutine of the run

	mu        sync.Mutex
	frames    []Frame
	filled    chan struct{} // holds one token when there may be frames
	cancelled atomic.Bool
}

// NewInbox makes an empty inbox.
func NewInbox() *Inbox { return &Inbox{filled: make(chan struct{}, 1)} }

// Put adds a frame, which the inbox owns from then on.
func (b *Inbox) Put(frame Frame) {
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

func (b *Inbox) listen() {
	if b.Listen != nil && !b.listening {
		b.listening = true
		b.Listen()
	}
}

func (b *Inbox) take() (Frame, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) == 0 {
		return Frame{}, false
	}
	frame := b.frames[0]
	b.frames = b.frames[1:]
	return frame, true
}

// wait waits for a frame, a cancellation, or the end of a time.
func (b *Inbox) wait(ctx context.Context, atMost time.Duration) (Frame, bool) {
	if b.Pull != nil && !b.listening {
		return b.pull(atMost)
	}
	b.listen()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		if frame, ok := b.take(); ok || b.cancelled.Load() {
			return frame, ok
		}
		select {
		case <-b.filled:
		case <-timer.C:
			return Frame{}, false
		case <-ctx.Done():
			return Frame{}, false
		}
	}
}

func (b *Inbox) pull(atMost time.Duration) (Frame, bool) {
	for until := time.Now().Add(atMost); ; {
		if frame, ok := b.take(); ok || b.cancelled.Load() {
			return frame, ok
		}
		if b.Pull(time.Until(until)) != nil {
			return Frame{}, false
		}
	}
}

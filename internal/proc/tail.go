package proc

import (
	"context"
	"io"
	"sync"
	"time"
)

// Tail keeps the end of the bytes written to it, such as a program's stderr. The zero
// value is ready to use. It is safe for concurrent use.
type Tail struct {
	// Limit is the number of bytes kept, 8 KiB if zero.
	Limit int

	mu   sync.Mutex
	text []byte
}

const defaultTail = 8 << 10

// Write appends p. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.Limit
	if limit == 0 {
		limit = defaultTail
	}
	t.text = append(t.text, p...)
	if over := len(t.text) - limit; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String returns the kept bytes.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Follower keeps the end of a stream that is read while its writer runs. The last output
// of a program may still be in the stream when the program has ended; [Follower.Last]
// waits for it.
type Follower struct {
	tail Tail
	done chan struct{}
}

// drainTimeout bounds the wait for the end of the stream, because a descendant that outlives
// the program may keep it open.
const drainTimeout = time.Second

// Follow calls read in a new goroutine; read must return at the end of the stream.
func Follow(read func(to io.Writer)) *Follower {
	f := &Follower{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		read(&f.tail)
	}()
	return f
}

// Last waits for the end of the stream, for a second, or until ctx is done, and returns the
// end of what was read. A nil Follower has read nothing.
func (f *Follower) Last(ctx context.Context) string {
	if f == nil {
		return ""
	}
	select {
	case <-f.done:
	case <-time.After(drainTimeout):
	case <-ctx.Done():
	}
	return f.tail.String()
}

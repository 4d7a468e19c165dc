package proc

import (
	"context"
	"io"
	"sync"
	"time"
)

// Tail keeps the end of what is written to it, such as what a program says on
// stderr. Its zero value is ready, and safe for concurrent use.
type Tail struct {
	// Limit is how many bytes are kept, 8 KiB if zero.
	Limit int

	mu   sync.Mutex
	text []byte
}

const defaultTail = 8 << 10

// Write never fails.
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

// String is what was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Follower is the end of a stream that is read while its writer lives. What a
// program wrote last may still be on its way when the program has ended, so that
// [Follower.Last] waits for it.
type Follower struct {
	tail Tail
	done chan struct{}
}

// onTheirWay bounds how long the last words are waited for: a descendant that
// outlives the program may keep the stream open.
const onTheirWay = time.Second

// Follow calls read, which returns at the end of the stream, in a goroutine of its
// own.
func Follow(read func(to io.Writer)) *Follower {
	f := &Follower{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		read(&f.tail)
	}()
	return f
}

// Last is the end of the stream, once the stream has ended; or what has come of it
// after a second, or when ctx ends. A nil Follower has read nothing.
func (f *Follower) Last(ctx context.Context) string {
	if f == nil {
		return ""
	}
	select {
	case <-f.done:
	case <-time.After(onTheirWay):
	case <-ctx.Done():
	}
	return f.tail.String()
}

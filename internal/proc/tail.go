package proc

import "sync"

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

package process

import (
	"io"
	"os"
	"sync"
)

// tail keeps the end of what a guest writes to stderr.
type tail struct {
	limit int

	mu   sync.Mutex
	text []byte
}

// follow reads until nobody has the other end any more.
func (t *tail) follow(from *os.File) {
	defer from.Close()
	_, _ = io.Copy(t, from)
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - t.limit; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

package mcpsource

import (
	"strings"
	"sync"
)

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct {
	mu   sync.Mutex
	data []byte
}

// maxTail is how much of a server's stderr is kept.
const maxTail = 8 << 10

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p...)
	if extra := len(b.data) - maxTail; extra > 0 {
		b.data = append(b.data[:0], b.data[extra:]...)
	}
	return len(p), nil
}

// tail is the last lines, for an error message.
func (b *tailBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	const lines = 5
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(b.data), "")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

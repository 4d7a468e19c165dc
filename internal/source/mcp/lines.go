package mcpsource

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"sync"
)

// messageLines passes on the lines of a server's output that can be messages.
// Many servers print a banner or a log line on stdout; that goes to stderr
// where people can read it, in place of ending the connection.
type messageLines struct {
	src  io.ReadCloser
	in   *bufio.Reader
	rest []byte
	// skipping is set inside a line that is no message.
	skipping  bool
	atStart   bool
	elsewhere io.Writer
}

func newMessageLines(src io.ReadCloser, elsewhere io.Writer) *messageLines {
	return &messageLines{src: src, in: bufio.NewReaderSize(src, 64<<10), atStart: true, elsewhere: elsewhere}
}

func (l *messageLines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		piece, err := l.in.ReadSlice('\n')
		if len(piece) > 0 {
			if l.atStart {
				first := bytes.TrimLeft(piece, " \t\r\n")
				l.skipping = len(first) == 0 || first[0] != '{' && first[0] != '['
			}
			l.atStart = piece[len(piece)-1] == '\n'
			if l.skipping {
				_, _ = l.elsewhere.Write(piece)
			} else {
				l.rest = piece
				break
			}
		}
		if err != nil && err != bufio.ErrBufferFull {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close closes the source of the lines.
func (l *messageLines) Close() error { return l.src.Close() }

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

package mcpsource

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// messageLines passes on the lines of a server's output that are JSON. Many
// servers print a banner or a log line on stdout; that goes to stderr where
// people can read it, in place of ending the connection. A line that begins as
// a message and is none ends it: the SDK would wait for the rest for ever.
type messageLines struct {
	src       io.ReadCloser
	in        *bufio.Reader
	line      []byte // a long line in the making
	rest      []byte // of the line that is passed on
	elsewhere io.Writer
}

func newMessageLines(src io.ReadCloser, elsewhere io.Writer) *messageLines {
	return &messageLines{src: src, in: bufio.NewReaderSize(src, 64<<10), elsewhere: elsewhere}
}

func (l *messageLines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.next()
		if err != nil {
			return 0, err
		}
		start := bytes.TrimLeft(line, " \t\r\n")
		switch {
		case len(start) == 0:
		case start[0] != '{' && start[0] != '[':
			_, _ = l.elsewhere.Write(line)
		case !json.Valid(start):
			return 0, fmt.Errorf("the server wrote a line that is not a JSON message: %.80q", start)
		default:
			l.rest = line
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads one whole line.
func (l *messageLines) next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		if err == nil && len(l.line) == 0 {
			return piece, nil // the usual case needs no copy
		}
		l.line = append(l.line, piece...)
		switch {
		case err == nil:
			return l.line, nil
		case len(l.line) > maxMessage:
			return nil, fmt.Errorf("the server wrote a line of more than %d bytes", maxMessage)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
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

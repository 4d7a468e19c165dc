package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxMessage limits the size of a server's message.
const maxMessage = 64 << 20

// Lines reads the messages in a server's output. Many servers also print a banner or log
// lines on stdout; Lines copies those to another writer, where people can read them. A
// line that begins like a message but is not valid JSON is an error.
type Lines struct {
	in   *bufio.Reader
	line []byte // buffer for long lines
	log  io.Writer
}

// NewLines returns a Lines that reads src and copies other lines to log.
func NewLines(src io.Reader, log io.Writer) *Lines {
	return &Lines{in: bufio.NewReaderSize(src, 64<<10), log: log}
}

// Next returns the next message. The caller may keep it.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		start := bytes.TrimLeft(line, " \t\r\n")
		switch {
		case len(start) == 0:
		case start[0] != '{' && start[0] != '[':
			_, _ = l.log.Write(line)
		case !json.Valid(start):
			return nil, fmt.Errorf("the server wrote a line that is not a JSON message: %.80q", start)
		default:
			return bytes.Clone(start), nil
		}
	}
}

// read reads one line.
func (l *Lines) read() ([]byte, error) {
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

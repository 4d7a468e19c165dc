package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxMessage is the largest message of a server.
const maxMessage = 64 << 20

// Lines reads the messages in a server's output. Many servers print a banner or
// a log line on stdout; that goes elsewhere, where people can read it, in place
// of ending the connection. A line that begins as a message and is none is an
// error.
type Lines struct {
	in        *bufio.Reader
	line      []byte // a long line in the making
	elsewhere io.Writer
}

// NewLines reads the lines of src; what is no message goes to elsewhere.
func NewLines(src io.Reader, elsewhere io.Writer) *Lines {
	return &Lines{in: bufio.NewReaderSize(src, 64<<10), elsewhere: elsewhere}
}

// Next is the next message. The caller may keep it.
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
			_, _ = l.elsewhere.Write(line)
		case !json.Valid(start):
			return nil, fmt.Errorf("the server wrote a line that is not a JSON message: %.80q", start)
		default:
			return bytes.Clone(start), nil
		}
	}
}

// read reads one whole line.
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

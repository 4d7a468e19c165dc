package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// event is one server-sent event.
type event struct {
	id, kind string
	data     []byte
	retry    time.Duration // zero if absent
}

// eventStream reads server-sent events (WHATWG HTML, 9.2).
type eventStream struct {
	in   *bufio.Reader
	left int // remaining bytes of the current event
}

func newEventStream(r io.Reader) *eventStream {
	return &eventStream{in: bufio.NewReaderSize(r, 16<<10)}
}

// next returns the next event with data, an id or a retry time. At the end of the
// stream it returns io.EOF and drops an incomplete event.
func (s *eventStream) next() (event, error) {
	var e event
	complete := false
	s.left = maxMessage
	for {
		line, err := s.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if complete {
				return e, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			complete = true
		case "event":
			e.kind = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.id, complete = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry, complete = time.Duration(ms)*time.Millisecond, true
			}
		}
	}
}

// line reads a line and returns it without its end.
func (s *eventStream) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := s.in.ReadSlice('\n')
		s.left -= len(piece)
		if s.left < 0 {
			return nil, fmt.Errorf("the server sent an event of more than %d bytes", maxMessage)
		}
		if err == nil && line == nil {
			return bytes.TrimRight(piece, "\r\n"), nil
		}
		line = append(line, piece...)
		if err == nil {
			return bytes.TrimRight(line, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}

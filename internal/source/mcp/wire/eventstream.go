package wire

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
	retry    time.Duration // zero: not said
}

// eventStream reads server-sent events (WHATWG HTML, 9.2).
type eventStream struct {
	in   *bufio.Reader
	left int // bytes that the event in the making may still have
}

func newEventStream(r io.Reader) *eventStream {
	return &eventStream{in: bufio.NewReaderSize(r, 16<<10)}
}

// next is the next event with data, an id or a retry time. The error is io.EOF
// at the end of the stream; an event that is not finished then is dropped.
func (s *eventStream) next() (event, error) {
	var e event
	said := false
	s.left = maxMessage
	for {
		line, err := s.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if said {
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
			said = true
		case "event":
			e.kind = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.id, said = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry, said = time.Duration(ms)*time.Millisecond, true
			}
		}
	}
}

// line reads a line without its end.
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

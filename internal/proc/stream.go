package proc

import (
	"errors"
	"io"
)

// Stream joins an output and an input, such as those of a process, into one stream.
type Stream struct {
	io.ReadCloser
	io.WriteCloser
}

// Close closes both.
func (s Stream) Close() error { return errors.Join(s.WriteCloser.Close(), s.ReadCloser.Close()) }

package proc

import (
	"errors"
	"io"
	"os"
	"time"
)

// Output reads the output of a program from a pipe or a terminal.
type Output struct {
	file *os.File
	left int // bytes that may still be read after the time of EndWithin
}

// maxPipe is the largest size of a pipe for which a program needs no privilege (pipe(7)).
const maxPipe = 1 << 20

// NewOutput returns an Output that reads f.
func NewOutput(f *os.File) *Output { return &Output{f, maxPipe} }

// EndWithin makes Read wait for output until d has passed, because a process that outlives the
// program may keep the other end open. What has been written by then is read in any case,
// however slow the reader is.
func (o *Output) EndWithin(d time.Duration) {
	if o.file.SetReadDeadline(time.Now().Add(d)) != nil { // pipes of Windows have no deadline
		time.AfterFunc(d, func() { o.file.Close() })
	}
}

// Read reads output.
func (o *Output) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	n, err = readAvailable(o.file, b[:min(len(b), o.left)])
	o.left -= n
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Close closes the file.
func (o *Output) Close() error { return o.file.Close() }

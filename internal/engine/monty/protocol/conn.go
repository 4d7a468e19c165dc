// Package protocol speaks the protocol of Monty's worker, `monty subprocess`:
// frames of a 4-byte little-endian length and a protobuf message, written to
// its stdin and read from its stdout. Turns alternate strictly: one request,
// then any number of prints, then one event that ends the turn. The source of
// all numbers is monty.proto of github.com/pydantic/monty, release 1.4.0.
package protocol

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxFrame is the largest frame that is read, in bytes.
const MaxFrame = 64 << 20

// Conn is Toolroom's side of the connection to a worker. One goroutine uses it at a time.
type Conn struct {
	w   io.Writer
	r   *bufio.Reader
	out []byte
}

// NewConn returns a connection over the worker's stdin and stdout.
func NewConn(stdin io.Writer, stdout io.Reader) *Conn {
	return &Conn{w: stdin, r: bufio.NewReaderSize(stdout, 64<<10)}
}

// Send sends requests in one write. The worker handles them one after the other, so a request
// that is certain to follow need not wait for an answer.
func (c *Conn) Send(requests ...Request) error {
	c.out = c.out[:0]
	for _, r := range requests {
		c.out = binary.LittleEndian.AppendUint32(c.out, uint32(len(r)))
		c.out = append(c.out, r...)
	}
	if _, err := c.w.Write(c.out); err != nil {
		return fmt.Errorf("write to the Monty worker: %w", err)
	}
	if cap(c.out) > 1<<20 {
		c.out = nil // a large value must not stay for the life of the worker
	}
	return nil
}

// ErrGone means that the worker ended without a message.
var ErrGone = errors.New("the Monty worker ended")

// Receive reads the next event.
func (c *Conn) Receive() (Event, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return Event{}, gone(err)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > MaxFrame {
		return Event{}, fmt.Errorf("the Monty worker sent a frame of %d bytes, more than the %d that are read", size, MaxFrame)
	}
	frame, err := io.ReadAll(io.LimitReader(c.r, int64(size))) // grows with what is there, not with what is claimed
	if err == nil && len(frame) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return Event{}, gone(err)
	}
	e, err := parseEvent(frame)
	e.Bytes = len(frame)
	return e, err
}

func gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrGone
	}
	return fmt.Errorf("read from the Monty worker: %w", err)
}

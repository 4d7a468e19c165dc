package wire

import (
	"context"
	"fmt"
	"io"
)

// Pipes are the two ends of a server on stdio.
type Pipes struct {
	// In gives the server's output, whole JSON lines only.
	In *Lines
	// Out is the server's input.
	Out io.Writer
	// Stop ends the server and returns when it is gone; after it, reads and
	// writes fail.
	Stop func()
}

// Stdio is the transport to a server on stdio.
func Stdio(p Pipes) Transport {
	return &stdioTransport{pipes: p, out: make(chan write)}
}

type stdioTransport struct {
	pipes Pipes
	out   chan write
	s     *Session
}

// write is a message on its way; sent hears how that went.
type write struct {
	body []byte
	sent chan error
}

func (t *stdioTransport) attach(s *Session) {
	t.s = s
	s.spawn(t.read)
	s.spawn(t.write)
}

func (t *stdioTransport) ready() {}

func (t *stdioTransport) read() {
	for {
		line, err := t.pipes.In.Next()
		if err == nil {
			err = t.s.receive(line, 0)
		}
		if err != nil {
			t.s.end(err)
			return
		}
	}
}

// write is the only writer: a server that has stopped reading holds up this
// goroutine, not the callers.
func (t *stdioTransport) write() {
	for {
		select {
		case w := <-t.out:
			_, err := t.pipes.Out.Write(append(w.body, '\n'))
			w.sent <- err
			if err != nil {
				t.s.end(err)
				return
			}
		case <-t.s.Ended():
			return
		}
	}
}

func (t *stdioTransport) send(ctx context.Context, m *outgoing) error {
	w := write{body: m.body, sent: make(chan error, 1)}
	select {
	case t.out <- w:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.s.Ended():
		return fmt.Errorf("%w: %w", ErrNotSent, t.s.over())
	}
	select {
	case err := <-w.sent:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.s.Ended():
		return t.s.over()
	}
}

func (t *stdioTransport) close() { t.pipes.Stop() }

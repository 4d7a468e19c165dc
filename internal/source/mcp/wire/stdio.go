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
	return &stdioTransport{pipes: p, atOnce: atOnce(p.Out), turn: make(chan struct{}, 1), rest: make(chan []byte)}
}

type stdioTransport struct {
	pipes Pipes
	// atOnce writes what the pipe takes without waiting.
	atOnce func([]byte) (int, error)
	// turn has a token while a message is being written.
	turn chan struct{}
	rest chan []byte
	s    *Session
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

// write writes what the pipe did not take at once: a server that has stopped
// reading holds up this goroutine, not the callers.
func (t *stdioTransport) write() {
	for {
		select {
		case rest := <-t.rest:
			_, err := t.pipes.Out.Write(rest)
			<-t.turn
			if err != nil {
				t.s.end(err)
				return
			}
		case <-t.s.Ended():
			return
		}
	}
}

// send writes a message from the goroutine of its caller, where the pipe has room:
// waking another one to do it would cost more than the write.
func (t *stdioTransport) send(ctx context.Context, m *outgoing) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.s.Ended():
		return fmt.Errorf("%w: %w", ErrNotSent, t.s.over())
	}
	line := append(m.body, '\n')
	n, err := t.atOnce(line)
	switch {
	case err != nil:
		<-t.turn
		t.s.end(err)
		return err
	case n == len(line):
		<-t.turn
		return nil
	}
	select {
	case t.rest <- line[n:]: // with the turn
		return nil
	case <-t.s.Ended():
		return t.s.over()
	}
}

func (t *stdioTransport) close() { t.pipes.Stop() }

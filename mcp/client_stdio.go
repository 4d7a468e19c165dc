package mcp

import (
	"context"
	"fmt"
	"io"
)

// Pipes connect to a stdio server.
type Pipes struct {
	// In reads the messages in the server's output.
	In *Lines
	// Out is the server's input.
	Out io.Writer
	// Stop ends the server and returns when it has exited. Reads and writes fail
	// afterwards.
	Stop func()
}

// Stdio returns a transport to a stdio server.
func Stdio(p Pipes) Transport {
	return &stdioTransport{pipes: p, writeNonblocking: nonblockingWriter(p.Out), turn: make(chan struct{}, 1), unwritten: make(chan []byte)}
}

type stdioTransport struct {
	pipes Pipes
	// writeNonblocking writes as much as the pipe accepts without blocking.
	writeNonblocking func([]byte) (int, error)
	// turn holds a token while a message is being written.
	turn chan struct{}
	// unwritten receives the rest of a message that the pipe did not accept at once.
	unwritten chan []byte
	c         *Client
}

func (t *stdioTransport) attach(c *Client) {
	t.c = c
	c.spawn(t.readLoop)
	c.spawn(t.writeLoop)
}

func (t *stdioTransport) ready() {}

func (t *stdioTransport) readLoop() {
	for {
		line, err := t.pipes.In.Next()
		if err == nil {
			err = t.c.receive(line, 0)
		}
		if err != nil {
			t.c.end(err)
			return
		}
	}
}

// writeLoop writes what arrives on unwritten. A server that has stopped reading blocks this
// goroutine and not the callers.
func (t *stdioTransport) writeLoop() {
	for {
		select {
		case rest := <-t.unwritten:
			_, err := t.pipes.Out.Write(rest)
			<-t.turn
			if err != nil {
				t.c.end(err)
				return
			}
		case <-t.c.Done():
			return
		}
	}
}

// send writes a message in the caller's goroutine if the pipe has room, because
// waking another goroutine would cost more than the write.
func (t *stdioTransport) send(ctx context.Context, m *outgoing) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.c.Done():
		return fmt.Errorf("%w: %w", ErrNotSent, t.c.endedError())
	}
	line := append(m.body, '\n')
	n, err := t.writeNonblocking(line)
	switch {
	case err != nil:
		<-t.turn
		t.c.end(err)
		return err
	case n == len(line):
		<-t.turn
		return nil
	}
	select {
	case t.unwritten <- line[n:]: // with the turn
		return nil
	case <-t.c.Done():
		return t.c.endedError()
	}
}

func (t *stdioTransport) close() { t.pipes.Stop() }

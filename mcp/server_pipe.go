package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// pipe is a client on one stream for all messages: stdio or HTTP+SSE.
type pipe struct {
	s       *Server
	session *ServerSession

	starting sync.Mutex     // held while ended changes and while work grows
	work     sync.WaitGroup // requests being served
	ended    atomic.Bool

	mu    sync.Mutex
	write func(text []byte) error // writes one message
}

// newPipe returns a client whose messages are written with write.
func (s *Server) newPipe(ctx context.Context, write func([]byte) error) *pipe {
	p := &pipe{s: s, write: write, session: newServerSession(ctx, s)}
	p.session.out = p.send
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[p.session] = true
	return p
}

// send writes a message as one line.
func (p *pipe) send(text []byte) error {
	text, err := oneLine(text)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Load() {
		return errSessionOver
	}
	return p.write(text)
}

// end ends the session and all its requests, and waits for them, but not for a client
// that does not read.
func (p *pipe) end() {
	p.session.end()
	p.starting.Lock()
	p.ended.Store(true)
	p.starting.Unlock()
	p.wait(endTime)
}

// start serves a request in a goroutine of its own, and reports false if the pipe has
// ended: nothing may begin once end waits.
func (p *pipe) start(serve func()) bool {
	p.starting.Lock()
	defer p.starting.Unlock()
	if p.ended.Load() {
		return false
	}
	p.work.Go(serve)
	return true
}

const (
	// endTime limits the wait for requests that have been cancelled.
	endTime = 2 * time.Second
	// lastTime is how long requests may take to end after the client has sent its last
	// message.
	lastTime = time.Second
)

// wait waits until no request is being served, or for some time.
func (p *pipe) wait(limit time.Duration) {
	done := make(chan struct{})
	go func() { defer close(done); p.work.Wait() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// take takes in a text of the client: one message or a batch. Requests are served
// side by side; all else is in order.
func (p *pipe) take(ctx context.Context, text []byte) {
	messages, failures, isBatch, err := readBody(text)
	if err != nil {
		_ = p.send(refusal(err)) // a client that does not read is noticed at its next message
		return
	}
	var b *batch
	if isBatch {
		if version := p.session.Version(); version > batchVersion {
			_ = p.send(refusalOf(nil, CodeInvalidRequest, "this revision has no batches: send one message a line"))
			return
		}
		if len(messages) == 0 { // is no batch (JSON-RPC 2.0, 6)
			_ = p.send(notAMessage)
			return
		}
		b = newBatch(messages, failures)
		if done := b.done(); done != nil {
			_ = p.send(done)
		}
	}
	for i, m := range messages {
		if failures[i] == nil {
			p.takeOne(ctx, m, b)
		}
	}
}

// takeOne takes in a message. B is the batch that it belongs to, or nil.
func (p *pipe) takeOne(ctx context.Context, m *incoming, b *batch) {
	if m.Method == "" {
		p.session.answered(m)
		return
	}
	reply := &pipeReply{p: p, batch: b}
	err := m.identify(p.session)
	if m.ID == nil {
		p.s.serve(ctx, m, nil)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if err == nil {
		err = p.session.enter(m.ID, cancel)
	}
	if err != nil {
		cancel(nil)
		p.s.fail(m.ID, reply, err)
		return
	}
	serve := func() {
		defer cancel(nil)
		p.s.serve(ctx, m, sessionReply{reply, p.session})
	}
	if m.Method == "initialize" {
		serve() // what follows belongs to the session
		return
	}
	if !p.start(serve) {
		cancel(errSessionOver)
	}
}

// pipeReply answers one request on a pipe.
type pipeReply struct {
	p        *pipe
	batch    *batch // nil if the request is alone
	answered atomic.Bool
}

func (r *pipeReply) send(text []byte) error {
	if r.answered.Load() {
		return errGone
	}
	return r.p.send(text)
}

func (r *pipeReply) release(int) {}

func (r *pipeReply) answer(id, text []byte, failed *Error) {
	r.answered.Store(true)
	if failed == nil {
		text = answerText(id, text)
	}
	if r.batch != nil {
		r.p.mu.Lock()
		text = r.batch.add(text)
		r.p.mu.Unlock()
	}
	if text == nil {
		return
	}
	if err := r.p.send(text); err != nil && !errors.Is(err, errSessionOver) {
		r.p.s.o.Log.Warn("cannot send an answer to the client", "error", err)
	}
}

// Stdio serves one client on a pair of streams until it leaves or ctx ends. Out
// receives each message in one write. Stdio closes in, but not out.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := s.newPipe(ctx, func(text []byte) error {
		_, err := out.Write(append(text, '\n'))
		return err
	})
	read := make(chan error, 1)
	go func() { read <- p.readLines(ctx, in) }()
	var err error
	select {
	case err = <-read:
		if errors.Is(err, io.EOF) {
			p.wait(lastTime)
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.done:
	}
	cancel()
	p.end()
	_ = in.Close()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// readLines takes the client's lines until there are no more.
func (p *pipe) readLines(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines, p.s.o.MaxMessage)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p.take(ctx, line)
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line of its own memory, without its end.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > limit:
			return nil, fmt.Errorf("line longer than %d bytes", limit)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

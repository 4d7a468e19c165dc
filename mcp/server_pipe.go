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

// pipe is a connection with one stream for all messages to the client: stdio or HTTP+SSE.
type pipe struct {
	s       *Server
	session *ServerSession

	startMu sync.Mutex     // held when ended changes or work is added to
	work    sync.WaitGroup // requests being served
	ended   atomic.Bool

	// accepting is held over HTTP+SSE while a message is acknowledged and handled.
	accepting sync.Mutex

	mu    sync.Mutex
	write func(text []byte) error // writes one message
}

// newPipe returns a pipe that sends messages with write.
func (s *Server) newPipe(ctx context.Context, write func([]byte) error) *pipe {
	p := &pipe{s: s, write: write, session: newServerSession(ctx, s)}
	p.session.sendAlone = p.send
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
		return errDisconnected
	}
	return p.write(text)
}

// end ends the session and all its requests, and waits for them for at most endTimeout.
func (p *pipe) end() {
	p.session.end()
	p.startMu.Lock()
	p.ended.Store(true)
	p.startMu.Unlock()
	p.wait(endTimeout)
}

// spawn calls serve in a new goroutine. It returns false if the pipe has ended, because no
// request may begin while end waits.
func (p *pipe) spawn(serve func()) bool {
	p.startMu.Lock()
	defer p.startMu.Unlock()
	if p.ended.Load() {
		return false
	}
	p.work.Go(serve)
	return true
}

const (
	// endTimeout limits the wait for requests that have been cancelled.
	endTimeout = 2 * time.Second
	// lastTimeout is the time that requests in progress have to end after the client has
	// closed its stream.
	lastTimeout = time.Second
)

// wait waits until no request is in progress, for at most limit.
func (p *pipe) wait(limit time.Duration) {
	done := make(chan struct{})
	go func() { defer close(done); p.work.Wait() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// handleText handles a text of the client: one message or a batch. Requests are served
// concurrently; all other messages are handled in order.
func (p *pipe) handleText(ctx context.Context, text []byte) {
	messages, failures, isBatch, err := readBody(text)
	if err != nil {
		_ = p.send(parseErrorResponse(err)) // if the client has gone, reading fails next
		return
	}
	var b *batch
	if isBatch {
		if version := p.session.Version(); version > batchVersion {
			_ = p.send(errorResponse(nil, CodeInvalidRequest, "this revision has no batches: send one message a line"))
			return
		}
		if len(messages) == 0 { // invalid (JSON-RPC 2.0, 6)
			_ = p.send(notAMessage)
			return
		}
		b = newBatch(messages, failures)
		if done := b.response(); done != nil {
			_ = p.send(done)
		}
	}
	for i, m := range messages {
		if failures[i] == nil {
			p.handleMessage(ctx, m, b)
		}
	}
}

// handleMessage handles a message. B is the batch that it belongs to, or nil.
func (p *pipe) handleMessage(ctx context.Context, m *incoming, b *batch) {
	if m.Method == "" {
		p.session.handleAnswer(m)
		return
	}
	reply := &pipeResponder{p: p, batch: b}
	err := m.identify(p.session)
	if m.ID == nil {
		p.s.serve(ctx, m, nil)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if err == nil {
		err = p.session.addRequest(m.ID, cancel)
	}
	if err != nil {
		cancel(nil)
		p.s.respondError(m.ID, reply, err)
		return
	}
	serve := func() {
		defer cancel(nil)
		p.s.serve(ctx, m, sessionResponder{reply, p.session})
	}
	if m.Method == "initialize" {
		serve() // the following messages need the session
		return
	}
	if !p.spawn(serve) {
		cancel(errDisconnected)
	}
}

// pipeResponder is the responder of one request on a pipe.
type pipeResponder struct {
	p        *pipe
	batch    *batch // nil if the request is alone
	answered atomic.Bool
}

func (r *pipeResponder) send(text []byte) error {
	if r.answered.Load() {
		return errNotConnected
	}
	return r.p.send(text)
}

func (r *pipeResponder) release(int) {}

func (r *pipeResponder) respond(id, text []byte, failed *Error) {
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
	if err := r.p.send(text); err != nil && !errors.Is(err, errDisconnected) {
		r.p.s.o.Log.Warn("cannot send an answer to the client", "error", err)
	}
}

// Stdio serves one client on a pair of streams until the client closes its stream or ctx
// ends. Out receives each message in one write. Stdio closes in, but not out.
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
			p.wait(lastTimeout)
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

// readLines handles the client's lines until the stream ends. It returns io.EOF then.
func (p *pipe) readLines(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines, p.s.o.MaxMessage)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p.handleText(ctx, line)
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line of at most limit bytes, into new memory.
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

package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio serves one client on a pair of streams until it leaves or ctx ends. Calls
// are served as over HTTP, without the SDK as far as may be; it reads all else.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	toSDK, lines := io.Pipe()
	c := &stdioClient{s: s, lines: lines, out: &lineWriter{WriteCloser: out, standIns: s.standIns}, ended: ctx.Done()}
	sdk, err := s.server.Connect(ctx, &mcp.IOTransport{Reader: toSDK, Writer: c.out, MaxLineLength: maxBody}, nil)
	if err != nil {
		return err
	}
	c.sdk = sdk
	c.known.who = s.o.Identity(ctx)
	s.wires.Store(sdk, &c.known)
	defer s.wires.Delete(sdk)
	read := make(chan struct{})
	go func() {
		defer close(read)
		// The SDK hears of the end, and how it came about, as of a message.
		lines.CloseWithError(c.read(ctx, in))
		c.sent.leave()
	}()
	closed := make(chan error, 1)
	go func() { closed <- sdk.Wait() }()
	select {
	case err = <-closed:
	case <-ctx.Done():
		_ = sdk.Close()
		<-closed
		err = ctx.Err()
	}
	cancel()
	c.known.end()
	c.calls.Wait()
	_ = in.Close()
	return err
}

// stdioClient is the client of a pair of streams.
type stdioClient struct {
	s     *Server
	sdk   *mcp.ServerSession
	lines io.Writer // what the SDK reads
	out   *lineWriter
	ended <-chan struct{}
	known session
	calls sync.WaitGroup
	sent  leaves
}

// read takes the client's lines until there are no more.
func (c *stdioClient) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines)
		for _, message := range c.messages(line) {
			if c.take(ctx, message) || c.malformed(message) {
				continue
			}
			if _, err := c.lines.Write(append(c.ready(message), '\n')); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// messages are those of a line. Those of a batch, where the session's revision has
// batches, are served one by one, and answered together: the SDK writes the answers
// to a batch in another way than they came.
func (c *stdioClient) messages(line []byte) [][]byte {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	if line[0] == '[' && c.refuse(line, nil) {
		return nil
	}
	var batch []json.RawMessage
	if line[0] != '[' || json.Unmarshal(line, &batch) != nil {
		return [][]byte{line}
	}
	if speaksVersion(c.sdk) > batchRevision {
		_ = c.out.line(notMessage(nil, "this revision has no batches: send one message a line"))
		return nil
	}
	return c.out.begin(batch)
}

// malformed answers a line that is no message, and reports whether it did. The SDK would end
// the connection.
func (c *stdioClient) malformed(line []byte) bool {
	_, err := jsonrpc.DecodeMessage(line)
	if err == nil {
		return false
	}
	var request struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(line, &request) // what has no id gets none
	_ = c.out.line(notMessage(request.ID, err.Error()))
	return true
}

// refuse answers what cannot be read in one way alone, and reports whether it did.
func (c *stdioClient) refuse(line []byte, m *incoming) bool {
	err := refuseAmbiguous(line, m)
	if err != nil {
		// A client that does not read is noticed at its next message.
		_ = c.out.line(ambiguous(err))
	}
	return err != nil
}

// ready readies a line for the SDK.
func (c *stdioClient) ready(line []byte) []byte {
	m, _ := readIncoming(line)
	text, leave := c.s.park(m, line, c.sdk.ID(), &c.known)
	c.sent.add(leave)
	return text
}

// readLine reads a line of its own memory, without its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > maxBody:
			return nil, fmt.Errorf("line longer than %d bytes", maxBody)
		case !errors.Is(err, bufio.ErrBufferFull):
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// take serves a line that is a call. It is false where the SDK must read it.
func (c *stdioClient) take(ctx context.Context, line []byte) bool {
	m, ok := readIncoming(line)
	if c.refuse(line, m) {
		return true
	}
	if !ok {
		return false
	}
	c.known.hear(m)
	if m.method != "tools/call" || m.odd || m.name == "" || !m.answerable() {
		return false
	}
	p, ok := c.peer(m)
	if !ok {
		return false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if !c.known.enter(m.id, cancel) {
		cancel(nil)
		return false
	}
	c.calls.Go(func() {
		defer cancel(nil)
		defer c.known.leave(m.id)
		c.serve(ctx, m, p, func() { cancel(nil) })
	})
	return true
}

// peer is the client as a message, or the beginning of its session, describes it.
func (c *stdioClient) peer(m *incoming) (peer, bool) {
	if m.version != "" {
		return modernPeer(m)
	}
	known := c.known.peer.Load()
	if known == nil {
		c.known.begin(c.sdk)
		if known = c.known.peer.Load(); known == nil || known.modern() {
			c.known.peer.Store(nil) // not initialized, or it has no session at all
			return peer{}, false
		}
	}
	p := *known
	p.progress = progressOf(m)
	return p, true
}

func (c *stdioClient) serve(ctx context.Context, m *incoming, p peer, cancel context.CancelFunc) {
	d := &direct{s: c.s, cancel: cancel, meta: m.meta}
	d.give = func(name string) {
		if _, err := c.lines.Write(append(m.named(name), '\n')); err != nil {
			return
		}
		select {
		case <-d.joined:
		case <-c.ended:
		}
	}
	result, ours := d.serve(ctx, m.toolRequest(p))
	if !ours {
		return
	}
	text, err := c.s.answerText(m, result)
	if err == nil {
		err = c.out.line(text)
	}
	if err != nil {
		c.s.o.Log.Warn("cannot send a response to the client", "error", err)
	}
}

// lineWriter keeps the lines of two writers apart, and the answers to a batch
// together.
type lineWriter struct {
	mu sync.Mutex
	io.WriteCloser
	standIns standIns // what lines may have in them
	batches  batches
}

// Write writes a message, which is a line.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := w.batches.take(w.standIns.plain(p)); text != nil {
		if _, err := w.WriteCloser.Write(text); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// begin takes in a batch, and gives the messages that are to be served.
func (w *lineWriter) begin(messages []json.RawMessage) (serve [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(messages) == 0 { // is no batch (JSON-RPC 2.0, 6)
		_, _ = w.WriteCloser.Write(append(bytes.Clone(invalidRequest), '\n'))
		return nil
	}
	b, serve := w.batches.begin(messages)
	if text := b.done(); text != nil {
		// A client that does not read is noticed at its next message.
		_, _ = w.WriteCloser.Write(text)
	}
	return serve
}

// line writes a message as one line.
func (w *lineWriter) line(message []byte) error {
	if bytes.ContainsAny(message, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, message); err != nil {
			return err
		}
		message = compact.Bytes()
	}
	_, err := w.Write(append(message, '\n'))
	return err
}

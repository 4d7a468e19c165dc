package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom/internal/panics"
)

// Transport carries messages to a server. [Stdio] and [HTTP] return one. It passes
// incoming messages to the session that [Connect] returned.
type Transport interface {
	// attach sets the session that receives messages and runs the transport's
	// goroutines. It is called once, first.
	attach(c *Client)
	// send sends a message. Over HTTP it returns when the response has arrived.
	send(ctx context.Context, m *outgoing) error
	// ready is called when the protocol has been negotiated.
	ready()
	// close ends the connection, when no request is waiting on it.
	close()
}

// ClientHandler handles the notifications and requests of a server. Owner is the Owner of
// the client's request that they belong to, or nil if that is unknown.
type ClientHandler struct {
	// Notified receives each notification, in order with the responses. It must not
	// block.
	Notified func(owner any, method string, params json.RawMessage)
	// Asked answers a request of the server. If it is nil, all are refused.
	Asked func(ctx context.Context, owner any, q Question) (json.RawMessage, error)
}

// Question is a request of a server to its client.
type Question struct {
	Method string
	Params json.RawMessage
	// Progress receives the parameters of notifications/progress about the answer. A
	// client calls it to report progress to the server; a server that sets it is called
	// with the client's reports. It may be nil.
	Progress func(params json.RawMessage)
}

func (h *ClientHandler) notified(owner any, method string, params json.RawMessage) {
	if h.Notified != nil {
		h.Notified(owner, method, params)
	}
}

// Request is one request to the server.
type Request struct {
	Method string
	// Name is the object of the method, such as the tool of tools/call.
	Name   string
	Params []Field
	// Header is sent with the request over HTTP.
	Header map[string]string
	// Capabilities are the client's capabilities in this request; nil means those of
	// [ClientOptions]. Only modern servers receive them.
	Capabilities json.RawMessage
	// Meta holds further members of _meta.
	Meta []Field
	// Owner, if set, is passed to the [ClientHandler] with messages about this request.
	Owner any

	// opened is called when the server has acknowledged a subscription.
	opened func()
}

var (
	// ErrClosed means that the session has ended.
	ErrClosed = errors.New("the connection has ended")
	// ErrNotSent means that a request never reached the server. It can be repeated.
	ErrNotSent = errors.New("the request was not sent")
)

// notifyTimeout limits the time to notify a server of a cancelled request.
const notifyTimeout = 2 * time.Second

// Client is a connection with a negotiated protocol. Its methods are safe for
// concurrent use.
type Client struct {
	transport Transport
	handler   ClientHandler
	server    atomic.Pointer[ServerInfo]
	meta      []Field // of each request

	next   atomic.Int64
	open   context.Context // ends with the session
	finish context.CancelCauseFunc
	work   sync.WaitGroup // streams, questions being answered, last notifications

	mu        sync.Mutex
	pending   map[int64]*pending
	questions map[string]context.CancelCauseFunc // of the server, by id as the server writes it
	asking    int                                // number of the server's questions that have no answer yet, also of one id
	closed    bool
	unwatch   context.CancelFunc // ends the stream of the watched resources
}

type pending struct {
	owner  any
	answer chan answer
	// stopSending ends the sending if the response has arrived on another stream.
	stopSending context.CancelFunc
	opened      func() // nil except for subscriptions
}

type answer struct {
	result json.RawMessage
	err    error
}

func newClient(t Transport, h ClientHandler) *Client {
	c := &Client{transport: t, handler: h, pending: map[int64]*pending{}, questions: map[string]context.CancelCauseFunc{}}
	c.server.Store(&ServerInfo{})
	c.open, c.finish = context.WithCancelCause(context.Background())
	t.attach(c)
	return c
}

// Server describes the server.
func (c *Client) Server() ServerInfo { return *c.server.Load() }

// Ended returns a channel that is closed when the session has ended.
func (c *Client) Ended() <-chan struct{} { return c.open.Done() }

// Err returns the reason for the end of the session. It is valid after Ended is
// closed.
func (c *Client) Err() error { return context.Cause(c.open) }

// Over reports whether the session has ended.
func (c *Client) Over() bool { return c.open.Err() != nil }

// Close ends the session and returns when all its goroutines have ended. Requests in
// progress fail with [ErrClosed], unless a server over HTTP has forgotten the session
// ([ErrSessionGone]): then each of them still gets its own response. It is idempotent.
func (c *Client) Close() {
	c.end(ErrClosed)
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if !again {
		c.transport.close()
	}
	c.work.Wait()
}

// spawn runs f in a goroutine that Close waits for. It returns false and does not run
// f if the session is closed.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(func() {
		if panicked := panics.Catch(f); panicked != nil {
			c.end(panicked)
		}
	})
	return true
}

// End ends the session without waiting for its goroutines. Close must follow.
func (c *Client) End() { c.end(ErrClosed) }

// Ping checks that the server answers.
func (c *Client) Ping(ctx context.Context) error {
	method := "ping"
	if c.Server().Modern() {
		method = "server/discover"
	}
	_, err := c.Call(ctx, &Request{Method: method})
	return err
}

// end marks the session as ended. The first reason is kept.
func (c *Client) end(reason error) { c.finish(reason) }

// Call makes a request and returns the raw result. An [*Error] is the server's
// response; any other error means that there was no response. If ctx ends, Call
// notifies the server.
func (c *Client) Call(ctx context.Context, r *Request) (json.RawMessage, error) {
	id := c.next.Add(1)
	fields := c.withMeta(r, id)
	body, err := encode(id, r.Method, fields)
	if err != nil {
		return nil, err
	}
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	p := &pending{owner: r.Owner, answer: make(chan answer, 1), stopSending: stopSending, opened: r.opened}
	if !c.expect(id, p) {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, c.over())
	}
	defer c.forget(id)
	m := &outgoing{id: id, method: r.Method, name: r.Name, header: r.Header, body: body, version: c.server.Load().Version}
	err = c.transport.send(sending, m)
	select {
	case a := <-p.answer:
		return a.result, a.err
	default:
	}
	if err != nil {
		if ctx.Err() != nil {
			c.cancelled(ctx, id)
			return nil, ctx.Err()
		}
		return nil, err
	}
	select {
	case a := <-p.answer:
		return a.result, a.err
	case <-ctx.Done():
		c.cancelled(ctx, id)
		return nil, ctx.Err()
	case <-c.open.Done():
		return nil, c.over()
	}
}

// Tell makes a request in the background and ignores the response.
func (c *Client) Tell(r *Request) {
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.open, notifyTimeout)
		defer cancel()
		_, _ = c.Call(ctx, r)
	})
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method string, params ...Field) error {
	body, err := encode(0, method, params)
	if err != nil {
		return err
	}
	return c.transport.send(ctx, &outgoing{method: method, body: body, version: c.server.Load().Version})
}

// over returns the error of a request on an ended session. It is not [ErrSessionGone],
// which says that the server did not carry out the request.
func (c *Client) over() error {
	switch reason := c.Err(); {
	case errors.Is(reason, ErrClosed):
		return ErrClosed
	case errors.Is(reason, ErrSessionGone):
		return fmt.Errorf("%w: %v", ErrClosed, reason)
	default:
		return fmt.Errorf("%w: %w", ErrClosed, reason)
	}
}

// withMeta returns the parameters of a request with _meta.
func (c *Client) withMeta(r *Request, id int64) []Field {
	meta := append(append(make([]Field, 0, len(c.meta)+len(r.Meta)+1), c.meta...), r.Meta...)
	if len(c.meta) > 0 && r.Capabilities != nil {
		meta[slices.IndexFunc(meta, func(f Field) bool { return f.Name == metaCapabilities })].Value = r.Capabilities
	}
	if r.Owner != nil {
		meta = append(meta, Field{"progressToken", strconv.AppendQuote(nil, strconv.FormatInt(id, 10))})
	}
	if len(meta) == 0 {
		return r.Params
	}
	return append([]Field{{"_meta", object(meta)}}, r.Params...)
}

func (c *Client) expect(id int64, p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open.Err() != nil {
		return false
	}
	c.pending[id] = p
	return true
}

func (c *Client) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// cancelled notifies the server that a request was cancelled. A modern server over
// HTTP knows it from the closed stream.
func (c *Client) cancelled(ctx context.Context, id int64) {
	server := c.server.Load()
	if _, overHTTP := c.transport.(*httpTransport); overHTTP && server.Modern() || server.Version == "" {
		return
	}
	why := reason(context.Cause(ctx))
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
		defer cancel()
		defer context.AfterFunc(c.open, cancel)()
		_ = c.Notify(ctx, "notifications/cancelled", append([]Field{{"requestId", strconv.AppendInt(nil, id, 10)}}, why...)...)
	})
}

// reason returns the parameters that explain a cancelled request: those with which its
// own sender cancelled it, or else a text.
func reason(cause error) []Field {
	said := (*Cancelled)(nil)
	if !errors.As(cause, &said) {
		return []Field{String("reason", "the caller has cancelled the call")}
	}
	fields, _ := Fields(said.Params, "requestId") // it was received as JSON
	return fields
}

// progress reports progress on the answer to a question of the server.
func (c *Client) progress(params json.RawMessage) {
	fields, err := Fields(params)
	if err != nil {
		return
	}
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.open, notifyTimeout)
		defer cancel()
		// Ignore the error: a failed connection ends the session.
		_ = c.Notify(ctx, "notifications/progress", fields...)
	})
}

// receive handles a message or a batch. Origin is the id of the request on whose
// stream it arrived, or zero.
func (c *Client) receive(raw []byte, origin int64) error {
	messages, err := decode(raw)
	if err != nil {
		return fmt.Errorf("the server sent an invalid JSON-RPC message: %.80q: %w", raw, err)
	}
	for i := range messages {
		c.take(&messages[i], origin)
	}
	return nil
}

func (c *Client) take(m *message, origin int64) {
	switch id, isAnswer := m.answers(); {
	case isAnswer:
		if m.Error != nil {
			c.settle(id, origin, answer{err: m.Error})
		} else {
			c.settle(id, origin, answer{result: m.Result})
		}
	case m.Method == "":
	case len(m.ID) == 0 || string(m.ID) == "null":
		switch m.Method {
		case "notifications/subscriptions/acknowledged":
			c.acknowledged(m.Params, origin)
			return
		case "notifications/cancelled":
			c.withdrawn(m.Params)
			return
		}
		c.handler.notified(c.owner(m, origin), m.Method, m.Params)
	default:
		ctx, cancel := context.WithCancelCause(c.open)
		if !c.question(string(m.ID), cancel) {
			cancel(nil)
			c.end(errTooMany)
			return
		}
		// A context that is not cancelled stays in c.open.
		if !c.spawn(func() { defer cancel(nil); c.reply(ctx, m, origin) }) {
			cancel(nil)
		}
	}
}

// maxQuestions limits the requests of a server that are answered at once.
const maxQuestions = 1000

var errTooMany = fmt.Errorf("the server sent more than %d requests before it had answers", maxQuestions)

// question stores the function that withdraws a question of the server, or deletes
// it if withdraw is nil. It reports false if there are too many questions.
func (c *Client) question(id string, withdraw context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if withdraw == nil {
		delete(c.questions, id)
		c.asking--
		return true
	}
	if c.asking >= maxQuestions {
		return false
	}
	c.questions[id] = withdraw
	c.asking++
	return true
}

// withdrawn cancels a question that the server has withdrawn.
func (c *Client) withdrawn(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.mu.Lock()
	withdraw := c.questions[string(p.ID)]
	c.mu.Unlock()
	if withdraw != nil {
		withdraw(&Cancelled{Params: params})
	}
}

// settle delivers the response to a request. Only the first response counts.
func (c *Client) settle(id, origin int64, a answer) {
	c.mu.Lock()
	p := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if p == nil {
		return
	}
	p.answer <- a
	if origin != id {
		p.stopSending()
	}
}

// settled reports whether a request is no longer waiting for its response.
func (c *Client) settled(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id] == nil
}

// owner returns the owner of the request that a message belongs to: the request whose
// progress token it has, else that of its stream.
func (c *Client) owner(m *message, origin int64) any {
	if m.Method == "notifications/progress" {
		var p struct {
			Token string `json:"progressToken"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			if id, err := strconv.ParseInt(p.Token, 10, 64); err == nil {
				origin = id
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[origin]; p != nil {
		return p.owner
	}
	return nil
}

// reply answers a request of the server, unless the server withdraws it, which ends
// ctx.
func (c *Client) reply(ctx context.Context, m *message, origin int64) {
	defer c.question(string(m.ID), nil)
	var result json.RawMessage
	err := error(&Error{Code: CodeMethodNotFound, Message: "this client does not support " + m.Method})
	switch {
	case m.Method == "ping":
		result, err = json.RawMessage("{}"), nil
	case c.handler.Asked != nil:
		result, err = c.handler.Asked(ctx, c.owner(m, origin), Question{Method: m.Method, Params: m.Params, Progress: c.progress})
	}
	if ctx.Err() != nil {
		return
	}
	body, err := encodeAnswer(m.ID, result, asError(err))
	if err != nil {
		return
	}
	// Ignore the error: a failed connection ends the session.
	_ = c.transport.send(c.open, &outgoing{body: body, version: c.server.Load().Version})
}

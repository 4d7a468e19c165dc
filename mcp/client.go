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
	// Asked answers a request of the server. If it is nil, all requests are refused.
	Asked func(ctx context.Context, owner any, q Question) (json.RawMessage, error)
}

// Question is a request of a server to its client.
type Question struct {
	Method string
	Params json.RawMessage
	// Progress receives the parameters of notifications/progress about the answer. In a
	// client it is set, and the handler may call it to report progress to the server. A
	// server may set it to receive the client's reports.
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
	ctx    context.Context // ends with the session
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // streams, questions being answered, last notifications

	mu            sync.Mutex
	pending       map[int64]*pending
	questions     map[string]context.CancelCauseFunc // requests of the server in progress, by id as the server wrote it
	openQuestions int                                // number of requests of the server in progress; several may have the same id
	closed        bool
	stopWatching  context.CancelFunc // ends the subscription to the watched resources
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
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	t.attach(c)
	return c
}

// Server describes the server.
func (c *Client) Server() ServerInfo { return *c.server.Load() }

// Done returns a channel that is closed when the session has ended.
func (c *Client) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns the reason for the end of the session. It is nil until Done is closed.
func (c *Client) Err() error { return context.Cause(c.ctx) }

// HasEnded reports whether the session has ended.
func (c *Client) HasEnded() bool { return c.ctx.Err() != nil }

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
func (c *Client) end(reason error) { c.cancel(reason) }

// Call makes a request and returns the raw result. An [*Error] is the server's
// response; any other error means that there was no response. If ctx ends, Call
// notifies the server.
func (c *Client) Call(ctx context.Context, r *Request) (json.RawMessage, error) {
	id := c.next.Add(1)
	fields := c.withMeta(r, id)
	body, err := encodeRequest(id, r.Method, fields)
	if err != nil {
		return nil, err
	}
	sending, stopSending := context.WithCancel(ctx)
	defer stopSending()
	p := &pending{owner: r.Owner, answer: make(chan answer, 1), stopSending: stopSending, opened: r.opened}
	if !c.addPending(id, p) {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, c.endedError())
	}
	defer c.removePending(id)
	m := &outgoing{id: id, method: r.Method, name: r.Name, header: r.Header, body: body, version: c.server.Load().Version}
	if err = c.transport.send(sending, m); err == nil {
		select {
		case a := <-p.answer:
			return a.result, a.err
		case <-ctx.Done():
		case <-c.ctx.Done():
			err = c.endedError()
		}
	}
	select {
	case a := <-p.answer: // it may have arrived just before the end of the session or of ctx
		return a.result, a.err
	default:
	}
	if ctx.Err() != nil {
		c.notifyCancelled(ctx, id)
		return nil, ctx.Err()
	}
	return nil, err
}

// CallInBackground makes a request in the background and ignores the response.
func (c *Client) CallInBackground(r *Request) {
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, notifyTimeout)
		defer cancel()
		_, _ = c.Call(ctx, r)
	})
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method string, params ...Field) error {
	body, err := encodeRequest(0, method, params)
	if err != nil {
		return err
	}
	return c.transport.send(ctx, &outgoing{method: method, body: body, version: c.server.Load().Version})
}

// endedError returns the error for a request on an ended session. It never wraps
// [ErrSessionGone], which would mean that the server did not carry out the request.
func (c *Client) endedError() error {
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

// addPending registers a request. It returns false if the session has ended.
func (c *Client) addPending(id int64, p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.pending[id] = p
	return true
}

func (c *Client) removePending(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// notifyCancelled notifies the server that a request was cancelled. It sends nothing to a modern
// server over HTTP, for which the closed stream means the same.
func (c *Client) notifyCancelled(ctx context.Context, id int64) {
	server := c.server.Load()
	if _, overHTTP := c.transport.(*httpTransport); overHTTP && server.Modern() || server.Version == "" {
		return
	}
	why := cancelReason(context.Cause(ctx))
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		_ = c.Notify(ctx, "notifications/cancelled", append([]Field{{"requestId", strconv.AppendInt(nil, id, 10)}}, why...)...)
	})
}

// cancelReason returns the parameters that explain a cancelled request: those of the
// notification that cancelled it, or else a text.
func cancelReason(cause error) []Field {
	said := (*Cancelled)(nil)
	if !errors.As(cause, &said) {
		return []Field{String("reason", "the caller has cancelled the call")}
	}
	fields, _ := Fields(said.Params, "requestId") // they were received as JSON
	return fields
}

// sendProgress reports progress on the answer to a request of the server.
func (c *Client) sendProgress(params json.RawMessage) {
	fields, err := Fields(params)
	if err != nil {
		return
	}
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, notifyTimeout)
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
		c.handleMessage(&messages[i], origin)
	}
	return nil
}

// handleMessage handles a message of the server; origin is as in receive.
func (c *Client) handleMessage(m *message, origin int64) {
	switch id, isAnswer := m.responseID(); {
	case isAnswer:
		if m.Error != nil {
			c.deliver(id, origin, answer{err: m.Error})
		} else {
			c.deliver(id, origin, answer{result: m.Result})
		}
	case m.Method == "":
	case len(m.ID) == 0 || string(m.ID) == "null":
		switch m.Method {
		case "notifications/subscriptions/acknowledged":
			c.handleAcknowledged(m.Params, origin)
			return
		case "notifications/cancelled":
			c.cancelQuestion(m.Params)
			return
		}
		c.handler.notified(c.ownerOf(m, origin), m.Method, m.Params)
	default:
		ctx, cancel := context.WithCancelCause(c.ctx)
		if !c.setQuestion(string(m.ID), cancel) {
			cancel(nil)
			c.end(errTooManyQuestions)
			return
		}
		// A context that is not cancelled stays in c.open.
		if !c.spawn(func() { defer cancel(nil); c.answerQuestion(ctx, m, origin) }) {
			cancel(nil)
		}
	}
}

// maxQuestions limits the requests of a server in progress.
const maxQuestions = 1000

var errTooManyQuestions = fmt.Errorf("the server sent more than %d requests before it had answers", maxQuestions)

// setQuestion stores the function that cancels a request of the server, or removes the request
// if withdraw is nil. It returns false if there are too many requests.
func (c *Client) setQuestion(id string, withdraw context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if withdraw == nil {
		delete(c.questions, id)
		c.openQuestions--
		return true
	}
	if c.openQuestions >= maxQuestions {
		return false
	}
	c.questions[id] = withdraw
	c.openQuestions++
	return true
}

// cancelQuestion cancels a request that the server has withdrawn.
func (c *Client) cancelQuestion(params json.RawMessage) {
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

// deliver passes a response to its request. Only the first response counts.
func (c *Client) deliver(id, origin int64, a answer) {
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

// isDelivered reports whether a request is no longer waiting for its response.
func (c *Client) isDelivered(id int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id] == nil
}

// ownerOf returns the owner of the request that a message belongs to: the request with its
// progress token, else the one on whose stream it arrived.
func (c *Client) ownerOf(m *message, origin int64) any {
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

// answerQuestion answers a request of the server, unless the server withdraws the request, which
// ends ctx.
func (c *Client) answerQuestion(ctx context.Context, m *message, origin int64) {
	defer c.setQuestion(string(m.ID), nil)
	var result json.RawMessage
	err := error(&Error{Code: CodeMethodNotFound, Message: "this client does not support " + m.Method})
	switch {
	case m.Method == "ping":
		result, err = json.RawMessage("{}"), nil
	case c.handler.Asked != nil:
		result, err = c.handler.Asked(ctx, c.ownerOf(m, origin), Question{Method: m.Method, Params: m.Params, Progress: c.sendProgress})
	}
	if ctx.Err() != nil {
		return
	}
	body, err := encodeResponse(m.ID, result, toError(err))
	if err != nil {
		return
	}
	// Ignore the error: a failed connection ends the session.
	_ = c.transport.send(c.ctx, &outgoing{body: body, version: c.server.Load().Version})
}

// Cancelled is the cause ([context.Cause]) with which a request's context ends if its sender
// cancelled the request with notifications/cancelled. Client and server also send its
// parameters if it ends the context of a request of their own, so that a relay passes on the
// reason of a cancellation without further code.
type Cancelled struct {
	// Params are the parameters of notifications/cancelled, as they were sent.
	Params json.RawMessage
}

// Error returns the reason in the message.
func (c *Cancelled) Error() string {
	var params struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(c.Params, &params) != nil || params.Reason == "" {
		return context.Canceled.Error()
	}
	return params.Reason
}

// Is reports whether target is [context.Canceled].
func (c *Cancelled) Is(target error) bool { return target == context.Canceled }

// Package wire speaks MCP as a client, in raw JSON: what a server sends reaches
// the caller byte for byte. [Open] agrees on the protocol with a server, of
// 2026-07-28 or any older revision, over a [Transport]; [Session.Call] makes
// requests. It knows nothing of tools, policy or credentials.
package wire

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

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// Transport carries messages to a server. [Stdio] and [HTTP] make one; what
// comes back goes to the session that [Open] made of it.
type Transport interface {
	// attach gives the session that hears and whose goroutines are used; it is
	// called once, first.
	attach(s *Session)
	// send sends a message. Over HTTP it returns when the answer has come.
	send(ctx context.Context, m *outgoing) error
	// ready tells that the protocol has been agreed.
	ready()
	// close ends the connection, on which nothing waits any more.
	close()
}

// Handler hears what a server sends by itself. Owner is that of the request
// that it belongs to, nil where that cannot be known.
type Handler struct {
	// Notified hears each notification, in order with the answers; it must not
	// block.
	Notified func(owner any, method string, params json.RawMessage)
	// Asked answers a request of the server; nil answers none.
	Asked func(ctx context.Context, owner any, q Question) (json.RawMessage, error)
}

// Question is a request of the server.
type Question struct {
	Method string
	Params json.RawMessage
	// Progress tells the server how far the answer is, with the parameters of
	// notifications/progress.
	Progress func(said json.RawMessage)
}

func (h *Handler) notified(owner any, method string, params json.RawMessage) {
	if h.Notified != nil {
		h.Notified(owner, method, params)
	}
}

// Request is one request to the server.
type Request struct {
	Method string
	// Name is what the method is about: the tool of tools/call.
	Name   string
	Params []Field
	// Header is sent with the request over HTTP.
	Header map[string]string
	// Capabilities are the client's in this request; nil is those of [Options].
	// Only modern servers hear them.
	Capabilities json.RawMessage
	// Meta is said in _meta besides what the protocol says there.
	Meta []Field
	// Owner, when set, is who hears what the server tells of the request.
	Owner any

	// opened is called when the server has acknowledged a subscription.
	opened func()
}

var (
	// ErrClosed says that the session has ended.
	ErrClosed = errors.New("the connection has ended")
	// ErrNotSent says that a request never reached the server: it can be made
	// again.
	ErrNotSent = errors.New("the request was not sent")
)

// farewell is how long telling a server of a cancelled request may take.
const farewell = 2 * time.Second

// Session is a connection on which the protocol has been agreed. Its methods
// are safe for concurrent use.
type Session struct {
	transport Transport
	handler   Handler
	server    atomic.Pointer[Server]
	meta      []Field // of each request

	next   atomic.Int64
	open   context.Context // ends with the session
	finish context.CancelCauseFunc
	work   sync.WaitGroup // streams, questions being answered, farewells

	mu        sync.Mutex
	pending   map[int64]*pending
	questions map[string]context.CancelCauseFunc // of the server, by their ids as it writes them
	closed    bool
	unwatch   context.CancelFunc // ends the stream of the watched resources
}

type pending struct {
	owner  any
	answer chan answer
	// elsewhere ends the sending: the answer has come on another stream.
	elsewhere context.CancelFunc
	opened    func() // nil but for subscriptions
}

type answer struct {
	result json.RawMessage
	err    error
}

func newSession(t Transport, h Handler) *Session {
	s := &Session{transport: t, handler: h, pending: map[int64]*pending{}, questions: map[string]context.CancelCauseFunc{}}
	s.server.Store(&Server{})
	s.open, s.finish = context.WithCancelCause(context.Background())
	t.attach(s)
	return s
}

// Server says what the server is.
func (s *Session) Server() Server { return *s.server.Load() }

// Ended is closed when the connection has ended by itself or was closed.
func (s *Session) Ended() <-chan struct{} { return s.open.Done() }

// Err says why the session ended; it is valid once Ended is closed.
func (s *Session) Err() error { return context.Cause(s.open) }

// Close ends the session and returns when nothing of it is left. Requests under
// way fail with [ErrClosed]. It is idempotent.
func (s *Session) Close() {
	s.end(ErrClosed)
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if !again {
		s.transport.close()
	}
	s.work.Wait()
}

// spawn runs f in a goroutine that Close waits for. Once the session is closed
// it does not, and reports false.
func (s *Session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// End ends the session without waiting for what is left of it; Close must
// follow.
func (s *Session) End() { s.end(ErrClosed) }

// Ping asks the server for a sign of life.
func (s *Session) Ping(ctx context.Context) error {
	method := "ping"
	if s.Server().Modern() {
		method = "server/discover"
	}
	_, err := s.Call(ctx, &Request{Method: method})
	return err
}

// end marks the session as over; the first reason stands.
func (s *Session) end(reason error) { s.finish(reason) }

// Call makes a request and gives the raw result. An [*Error] is the server's
// own; any other error means that there was no answer. When ctx ends, the
// server is told.
func (s *Session) Call(ctx context.Context, r *Request) (json.RawMessage, error) {
	id := s.next.Add(1)
	fields := s.withMeta(r, id)
	body, err := encode(id, r.Method, fields)
	if err != nil {
		return nil, err
	}
	sending, elsewhere := context.WithCancel(ctx)
	defer elsewhere()
	p := &pending{owner: r.Owner, answer: make(chan answer, 1), elsewhere: elsewhere, opened: r.opened}
	if !s.expect(id, p) {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, s.over())
	}
	defer s.forget(id)
	m := &outgoing{id: id, method: r.Method, name: r.Name, header: r.Header, body: body, version: s.server.Load().Version}
	err = s.transport.send(sending, m)
	select {
	case a := <-p.answer:
		return a.result, a.err
	default:
	}
	if err != nil {
		if ctx.Err() != nil {
			s.cancelled(ctx, id)
			return nil, ctx.Err()
		}
		return nil, err
	}
	select {
	case a := <-p.answer:
		return a.result, a.err
	case <-ctx.Done():
		s.cancelled(ctx, id)
		return nil, ctx.Err()
	case <-s.open.Done():
		return nil, s.over()
	}
}

// Tell makes a request whose answer nobody waits for, in the background.
func (s *Session) Tell(r *Request) {
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.open, farewell)
		defer cancel()
		_, _ = s.Call(ctx, r)
	})
}

// Notify sends a notification.
func (s *Session) Notify(ctx context.Context, method string, params ...Field) error {
	body, err := encode(0, method, params)
	if err != nil {
		return err
	}
	return s.transport.send(ctx, &outgoing{method: method, body: body, version: s.server.Load().Version})
}

// over is the error of a request on a session that has ended.
func (s *Session) over() error {
	if reason := s.Err(); !errors.Is(reason, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, reason)
	}
	return ErrClosed
}

// withMeta adds what each request says of itself in _meta.
func (s *Session) withMeta(r *Request, id int64) []Field {
	meta := append(append(make([]Field, 0, len(s.meta)+len(r.Meta)+1), s.meta...), r.Meta...)
	if len(s.meta) > 0 && r.Capabilities != nil {
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

func (s *Session) expect(id int64, p *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open.Err() != nil {
		return false
	}
	s.pending[id] = p
	return true
}

func (s *Session) forget(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// cancelled tells the server that nobody waits for a request any more. A
// modern server over HTTP knows it from the closed stream.
func (s *Session) cancelled(ctx context.Context, id int64) {
	server := s.server.Load()
	if _, overHTTP := s.transport.(*httpTransport); overHTTP && server.Modern() || server.Version == "" {
		return
	}
	why := reason(context.Cause(ctx))
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		defer context.AfterFunc(s.open, cancel)()
		_ = s.Notify(ctx, "notifications/cancelled", append([]Field{{"requestId", strconv.AppendInt(nil, id, 10)}}, why...)...)
	})
}

// reason is what a server is told of the end of a request: what the client said,
// where it was the client.
func reason(cause error) []Field {
	said := (*source.Cancelled)(nil)
	if !errors.As(cause, &said) {
		return []Field{String("reason", "the caller has cancelled the call")}
	}
	members, _ := jsonx.Members(said.Said) // what came as JSON
	var fields []Field
	for _, m := range members {
		if m.Name != "requestId" {
			fields = append(fields, Field{m.Name, m.Value})
		}
	}
	return fields
}

// progress tells the server how far its question is.
func (s *Session) progress(said json.RawMessage) {
	members, err := jsonx.Members(said)
	if err != nil {
		return
	}
	fields := make([]Field, len(members))
	for i, m := range members {
		fields[i] = Field(m)
	}
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.open, farewell)
		defer cancel()
		// A server that cannot be told any more has ended the session.
		_ = s.Notify(ctx, "notifications/progress", fields...)
	})
}

// receive takes in what came in one piece. Origin is the number of the request
// on whose stream it came, zero where there is none.
func (s *Session) receive(raw []byte, origin int64) error {
	messages, err := decode(raw)
	if err != nil {
		return fmt.Errorf("the server sent what is not a JSON-RPC message: %.80q: %w", raw, err)
	}
	for i := range messages {
		s.take(&messages[i], origin)
	}
	return nil
}

func (s *Session) take(m *message, origin int64) {
	switch id, isAnswer := m.answers(); {
	case isAnswer:
		if m.Error != nil {
			s.settle(id, origin, answer{err: m.Error})
		} else {
			s.settle(id, origin, answer{result: m.Result})
		}
	case m.Method == "":
	case len(m.ID) == 0 || string(m.ID) == "null":
		switch m.Method {
		case "notifications/subscriptions/acknowledged":
			s.acknowledged(m.Params, origin)
			return
		case "notifications/cancelled":
			s.withdrawn(m.Params)
			return
		}
		s.handler.notified(s.owner(m, origin), m.Method, m.Params)
	default:
		ctx, cancel := context.WithCancelCause(s.open)
		s.question(string(m.ID), cancel)
		if !s.spawn(func() { s.reply(ctx, m, origin) }) {
			cancel(nil)
		}
	}
}

// question keeps how a question of the server is withdrawn, or forgets it with nil.
func (s *Session) question(id string, withdraw context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if withdraw == nil {
		delete(s.questions, id)
	} else {
		s.questions[id] = withdraw
	}
}

// withdrawn ends a question that the server wants no answer to any more.
func (s *Session) withdrawn(params json.RawMessage) {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.mu.Lock()
	withdraw := s.questions[string(p.ID)]
	s.mu.Unlock()
	if withdraw != nil {
		withdraw(&source.Cancelled{Said: params})
	}
}

// settle gives a request its answer; the first one counts.
func (s *Session) settle(id, origin int64, a answer) {
	s.mu.Lock()
	p := s.pending[id]
	delete(s.pending, id)
	s.mu.Unlock()
	if p == nil {
		return
	}
	p.answer <- a
	if origin != id {
		p.elsewhere()
	}
}

// settled reports whether nobody waits for a request any more.
func (s *Session) settled(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending[id] == nil
}

// owner is whose request a message belongs to: that of its stream, else the one
// whose progress token it bears.
func (s *Session) owner(m *message, origin int64) any {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pending[origin]; p != nil {
		return p.owner
	}
	return nil
}

// reply answers a request of the server, unless ctx ends: the server has withdrawn it.
func (s *Session) reply(ctx context.Context, m *message, origin int64) {
	defer s.question(string(m.ID), nil)
	var result json.RawMessage
	err := error(&Error{Code: CodeMethodNotFound, Message: "this client does not answer " + m.Method})
	switch {
	case m.Method == "ping":
		result, err = json.RawMessage("{}"), nil
	case s.handler.Asked != nil:
		result, err = s.handler.Asked(ctx, s.owner(m, origin), Question{Method: m.Method, Params: m.Params, Progress: s.progress})
	}
	if ctx.Err() != nil {
		return
	}
	var failed *Error
	if err != nil && !errors.As(err, &failed) {
		failed = &Error{Code: CodeInternal, Message: err.Error()}
	}
	body, err := encodeAnswer(m.ID, result, failed)
	if err != nil {
		return
	}
	// A server that cannot be told any more has ended the session.
	_ = s.transport.send(s.open, &outgoing{body: body, version: s.server.Load().Version})
}

package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ServerSession is what a client before 2026-07-28 opens with initialize, and one
// connection on stdio or HTTP+SSE of any revision. Its methods are safe for concurrent
// use.
type ServerSession struct {
	s     *Server
	id    string // empty except over streamable HTTP
	owner string
	ctx   context.Context // of the request that began it, without its end
	// out sends a message that belongs to no request.
	out func(text []byte) error
	// stored are the streams of a session over streamable HTTP, and nil for others.
	stored *streams
	ended  chan struct{} // closed by end

	mu     sync.Mutex // guards the fields below
	began  string     // the negotiated revision; empty before
	info   json.RawMessage
	can    json.RawMessage
	logs   string
	calls  map[string]context.CancelCauseFunc // requests in progress, by id
	asked  map[string]chan answer             // requests to the client, by id
	follow map[string][]func(json.RawMessage) // of requests to the client, by progress token
	next   int64
	subs   map[string]func() // unsubscribes, by URI
	seen   time.Time
	expiry *time.Timer // of a session over streamable HTTP
	over   bool
}

// newServerSession returns a session that is not yet one of the server's live ones.
func newServerSession(ctx context.Context, s *Server) *ServerSession {
	return &ServerSession{
		s: s, owner: s.o.Owner(ctx), ctx: context.WithoutCancel(ctx), ended: make(chan struct{}), seen: time.Now(),
	}
}

// ID returns the id of a session over streamable HTTP, and is empty for others.
func (s *ServerSession) ID() string { return s.id }

// Version returns the negotiated revision, or "" before initialize.
func (s *ServerSession) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// Capabilities returns the client's capabilities as it wrote them.
func (s *ServerSession) Capabilities() json.RawMessage {
	_, _, can := s.client()
	return can
}

// Context returns the context of the request that began the session. It does not end.
func (s *ServerSession) Context() context.Context { return s.ctx }

// Notify sends a notification that belongs to no request. Log messages below the level
// that the client has asked for are dropped.
func (s *ServerSession) Notify(method string, params json.RawMessage) error {
	if method == "notifications/message" && !logs(s.level(), params) {
		return nil
	}
	return s.out(notification(method, params))
}

func (s *ServerSession) client() (version string, info, can json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began, s.info, s.can
}

func (s *ServerSession) begin(version string, info, can json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began != "" {
		return false
	}
	s.began, s.info = version, slices.Clone(info)
	if string(can) != "null" {
		s.can = slices.Clone(can)
	}
	return true
}

// enter notes a request, so that the client can cancel it until it leaves. It returns an
// error if the id is in use, or the session has ended.
func (s *ServerSession) enter(id json.RawMessage, cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return &Error{Code: CodeInvalidRequest, Message: "the session has ended"}
	}
	if _, taken := s.calls[string(id)]; taken {
		return &Error{Code: CodeInvalidRequest, Message: "duplicate in-flight request ID " + string(id)}
	}
	if s.calls == nil {
		s.calls = map[string]context.CancelCauseFunc{}
	}
	s.calls[string(id)] = cancel
	s.seen = time.Now()
	return nil
}

func (s *ServerSession) leave(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(id))
	if len(s.calls) == 0 {
		s.calls = nil // most sessions are idle
	}
	s.seen = time.Now()
}

// sessionReply answers a request that has entered a session. The request leaves before
// its answer does, since a client may use the id again once it has the answer.
type sessionReply struct {
	replier
	session *ServerSession
}

func (r sessionReply) answer(id, text []byte, failed *Error) {
	r.session.leave(id)
	r.replier.answer(id, text, failed)
}

// touch notes that the session is used.
func (s *ServerSession) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = time.Now()
}

// cancelRequest ends a request, of which the client has said why.
func (s *ServerSession) cancelRequest(id, params json.RawMessage) {
	s.mu.Lock()
	cancel := s.calls[string(id)]
	s.mu.Unlock()
	if cancel != nil {
		cancel(&Cancelled{Params: slices.Clone(params)})
	}
}

// end ends the session with all its requests.
func (s *ServerSession) end() {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	close(s.ended)
	if s.expiry != nil {
		s.expiry.Stop() // its function would keep the session in memory
	}
	calls, subs := s.calls, s.subs
	s.calls, s.subs = nil, nil
	s.mu.Unlock()
	for _, cancel := range calls {
		cancel(nil)
	}
	for _, unsubscribe := range subs {
		go unsubscribe()
	}
	s.s.mu.Lock()
	delete(s.s.live, s)
	if s.id != "" {
		if s.s.owned[s.owner]--; s.s.owned[s.owner] <= 0 {
			delete(s.s.owned, s.owner)
		}
	}
	s.s.mu.Unlock()
	if s.stored != nil {
		s.stored.drop()
	}
}

// expire ends the session once it has not been used for sessionTimeout. A request in progress
// uses it, unless it waits for an answer of the client: a client that has gone answers nothing.
func (s *ServerSession) expire() {
	listening := s.stored.listening() // which has a lock of its own
	s.mu.Lock()
	if listening || len(s.calls) > 0 && len(s.asked) == 0 {
		s.seen = time.Now()
	}
	idle := time.Since(s.seen)
	if !s.over && idle < sessionTimeout {
		s.expiry.Reset(sessionTimeout - idle)
	}
	s.mu.Unlock()
	if idle >= sessionTimeout {
		s.s.sessions.Remove(s.id) // which ends it
	}
}

// errSessionOver means that the client of a session has gone.
var errSessionOver = errors.New("the client has disconnected")

// ask sends a request to the client with send, and waits for the answer.
func (s *ServerSession) ask(ctx context.Context, q Question, send func([]byte) error) (json.RawMessage, error) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return nil, errSessionOver
	}
	s.next++
	id := strconv.FormatInt(s.next, 10)
	if s.asked == nil {
		s.asked = map[string]chan answer{}
	}
	got := make(chan answer, 1)
	s.asked[id] = got
	forget := s.followLocked(q)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.asked, id); len(s.asked) == 0 {
			s.asked = nil
		}
		forget()
	}()
	params := q.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	text := object([]Field{String("jsonrpc", "2.0"), {"id", json.RawMessage(id)}, String("method", q.Method), {"params", params}})
	if err := send(text); err != nil {
		return nil, err
	}
	select {
	case a := <-got:
		return a.result, a.err
	case <-s.ended:
		return nil, errSessionOver
	case <-ctx.Done():
		_ = send(notification("notifications/cancelled", withdrawal(id, context.Cause(ctx)))) // a client that has gone needs no word
		return nil, context.Cause(ctx)
	}
}

// withdrawal returns the parameters of notifications/cancelled for a request to the
// client: those with which the request was cancelled here, or else a text.
func withdrawal(id string, cause error) json.RawMessage {
	params := Object{}
	if said := (*Cancelled)(nil); errors.As(cause, &said) {
		params, _ = ReadObject(said.Params) // it was received as JSON
	} else {
		params.Set("reason", String("", "the request has ended").Value)
	}
	params.Set("requestId", json.RawMessage(id))
	return params.JSON()
}

// followLocked passes the client's progress with a question on, until forget is called.
func (s *ServerSession) followLocked(q Question) (forget func()) {
	token := progressToken(q.Params)
	if q.Progress == nil || token == "" {
		return func() {}
	}
	if s.follow == nil {
		s.follow = map[string][]func(json.RawMessage){}
	}
	s.follow[token] = append(s.follow[token], q.Progress)
	return func() {
		// Where two share a token neither hears of it any more.
		if delete(s.follow, token); len(s.follow) == 0 {
			s.follow = nil
		}
	}
}

// progressed passes on how far an answer is. Where two questions have the same token
// it may be either's, and neither hears of it.
func (s *ServerSession) progressed(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.mu.Lock()
	open := s.follow[string(p.Token)]
	s.mu.Unlock()
	if len(open) == 1 {
		open[0](params)
	}
}

// progressToken returns that of a question, as it is written.
func progressToken(params json.RawMessage) string {
	var p struct {
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return string(p.Meta.Token)
}

// answered takes in the client's answer to a request.
func (s *ServerSession) answered(m *incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = time.Now()
	got := s.asked[string(m.ID)]
	if got == nil {
		return
	}
	a := answer{result: m.result}
	if m.failure != nil {
		failed := &Error{}
		if err := json.Unmarshal(m.failure, failed); err != nil {
			failed = &Error{Code: CodeInternal, Message: fmt.Sprintf("the client's error cannot be read: %v", err)}
		}
		a = answer{err: failed}
	}
	select {
	case got <- a:
	default: // only the first answer counts
	}
}

func (s *ServerSession) level() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs
}

func (s *ServerSession) setLevel(params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Level string `json:"level"`
	}
	if json.Unmarshal(params, &p) != nil || !slices.Contains(levels, p.Level) {
		return nil, &Error{Code: CodeInvalidParams, Message: "logging/setLevel needs level, from debug to emergency"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = p.Level
	return json.RawMessage("{}"), nil
}

// levels are those of log messages, the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// logs reports whether a client that asked for a level wants a log message. A message
// of an unknown level is as severe as one of the least.
func logs(wanted string, params json.RawMessage) bool {
	var p struct {
		Level string `json:"level"`
	}
	return wanted != "" && json.Unmarshal(params, &p) == nil && slices.Index(levels, p.Level) >= slices.Index(levels, wanted)
}

// newID returns an id for a session.
func (s *Server) newID() string {
	if s.o.SessionID != nil {
		return s.o.SessionID()
	}
	return rand.Text()
}

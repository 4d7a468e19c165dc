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

// ServerSession is a session that a client before 2026-07-28 opens with initialize, or a
// connection of any revision on stdio or HTTP+SSE. Its methods are safe for concurrent use.
type ServerSession struct {
	s     *Server
	id    string // empty except over streamable HTTP
	owner string
	ctx   context.Context // that of the request that began it, without cancellation
	// sendAlone sends a message that belongs to no request.
	sendAlone func(text []byte) error
	// streams are the streams of a session over streamable HTTP; nil for others.
	streams *streams
	ended   chan struct{} // closed by end

	mu               sync.Mutex // guards the fields below
	version          string     // the negotiated revision; empty before
	info             json.RawMessage
	capabilities     json.RawMessage
	logLevel         string
	calls            map[string]context.CancelCauseFunc // requests in progress, by id
	questions        map[string]chan answer             // requests to the client in progress, by id
	progressHandlers map[string][]func(json.RawMessage) // by progress token of a request to the client
	next             int64
	unsubscribers    map[string]func() // unsubscribes, by URI
	lastUsed         time.Time
	expiry           *time.Timer // of a session over streamable HTTP
	expired          bool        // it is about to be ended because nobody uses it
	closed           bool
}

// newServerSession returns a session that is not yet in Server.live.
func newServerSession(ctx context.Context, s *Server) *ServerSession {
	return &ServerSession{
		s: s, owner: s.o.Owner(ctx), ctx: context.WithoutCancel(ctx), ended: make(chan struct{}), lastUsed: time.Now(),
	}
}

// ID returns the id of a session over streamable HTTP, or "" for others.
func (s *ServerSession) ID() string { return s.id }

// Version returns the negotiated revision, or "" before initialize.
func (s *ServerSession) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Capabilities returns the client's capabilities as it wrote them.
func (s *ServerSession) Capabilities() json.RawMessage {
	_, _, can := s.clientInfo()
	return can
}

// Context returns the context of the request that began the session, without its cancellation.
func (s *ServerSession) Context() context.Context { return s.ctx }

// Notify sends a notification that belongs to no request. Log messages below the client's
// level are dropped.
func (s *ServerSession) Notify(method string, params json.RawMessage) error {
	if method == "notifications/message" && !wantsLog(s.level(), params) {
		return nil
	}
	return s.sendAlone(encodeNotification(method, params))
}

func (s *ServerSession) clientInfo() (version string, info, can json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.info, s.capabilities
}

// initialize stores the negotiated revision and the client's declarations. It returns false if
// the session has been initialized already.
func (s *ServerSession) initialize(version string, info, can json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != "" {
		return false
	}
	s.version, s.info = version, slices.Clone(info)
	if string(can) != "null" {
		s.capabilities = slices.Clone(can)
	}
	return true
}

// addRequest registers a request, so that the client can cancel it, until removeRequest is
// called. It returns an error if the id is in use, or the session has ended.
func (s *ServerSession) addRequest(id json.RawMessage, cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &Error{Code: CodeInvalidRequest, Message: "the session has ended"}
	}
	if _, taken := s.calls[string(id)]; taken {
		return &Error{Code: CodeInvalidRequest, Message: "duplicate in-flight request ID " + string(id)}
	}
	if s.calls == nil {
		s.calls = map[string]context.CancelCauseFunc{}
	}
	s.calls[string(id)] = cancel
	s.lastUsed = time.Now()
	return nil
}

func (s *ServerSession) removeRequest(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(id))
	if len(s.calls) == 0 {
		s.calls = nil // most sessions are idle
	}
	s.lastUsed = time.Now()
}

// sessionResponder is the responder of a request in a session. It removes the request before it
// sends the response, because a client may use the id again once it has the response.
type sessionResponder struct {
	responder
	session *ServerSession
}

func (r sessionResponder) respond(id, text []byte, failed *Error) {
	r.session.removeRequest(id)
	r.responder.respond(id, text, failed)
}

// touch records that the session is in use. It returns false if the session has ended.
func (s *ServerSession) touch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = time.Now()
	return !s.expired && !s.closed
}

// initializeTime is how long a session whose initialize is under way counts as in use.
const initializeTime = 10 * time.Second

// idleSince returns when the session was last used, and false if it is in use or has ended.
func (s *ServerSession) idleSince() (time.Time, bool) {
	listening := s.streams.listening() // which has a lock of its own
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := s.version != "" || time.Since(s.lastUsed) > initializeTime
	return s.lastUsed, begun && !listening && len(s.calls) == 0 && !s.expired && !s.closed
}

// endUnused ends the session unless it has been used since a time.
func (s *ServerSession) endUnused(since time.Time) bool {
	s.mu.Lock()
	unused := s.lastUsed.Equal(since) && !s.expired && !s.closed
	s.expired = s.expired || unused
	s.mu.Unlock()
	if unused {
		s.end()
		s.s.sessions.Remove(s.id)
	}
	return unused
}

// cancelRequest cancels a request. params are those of the client's notifications/cancelled.
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
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.ended)
	if s.expiry != nil {
		s.expiry.Stop() // its function would keep the session in memory
	}
	calls, subs := s.calls, s.unsubscribers
	s.calls, s.unsubscribers = nil, nil
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
		if s.s.sessionCounts[s.owner]--; s.s.sessionCounts[s.owner] <= 0 {
			delete(s.s.sessionCounts, s.owner)
		}
	}
	s.s.mu.Unlock()
	if s.streams != nil {
		s.streams.dropAll()
	}
}

// expire ends the session if it has not been used for sessionTimeout. A request in progress
// counts as use, unless it waits for an answer of the client, which may have gone.
func (s *ServerSession) expire() {
	listening := s.streams.listening() // which has a lock of its own
	s.mu.Lock()
	if listening || len(s.calls) > 0 && len(s.questions) == 0 {
		s.lastUsed = time.Now()
	}
	idle := time.Since(s.lastUsed)
	if !s.closed && idle < sessionTimeout {
		s.expiry.Reset(sessionTimeout - idle)
	}
	s.expired = s.expired || idle >= sessionTimeout
	s.mu.Unlock()
	if idle >= sessionTimeout {
		s.s.sessions.Remove(s.id) // also ends the session
	}
}

// errDisconnected means that the client of a session has gone.
var errDisconnected = errors.New("the client has disconnected")

// ask sends a request to the client with send, and waits for the answer.
func (s *ServerSession) ask(ctx context.Context, q Question, send func([]byte) error) (json.RawMessage, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errDisconnected
	}
	s.next++
	id := strconv.FormatInt(s.next, 10)
	if s.questions == nil {
		s.questions = map[string]chan answer{}
	}
	got := make(chan answer, 1)
	s.questions[id] = got
	forget := s.addProgressHandler(q)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.questions, id); len(s.questions) == 0 {
			s.questions = nil
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
		return nil, errDisconnected
	case <-ctx.Done():
		_ = send(encodeNotification("notifications/cancelled", cancelledParams(id, context.Cause(ctx)))) // an error means that the client has gone
		return nil, context.Cause(ctx)
	}
}

// cancelledParams returns the parameters of notifications/cancelled for a request to the client:
// those of the notification that was the cause, or else a text.
func cancelledParams(id string, cause error) json.RawMessage {
	params := Object{}
	if said := (*Cancelled)(nil); errors.As(cause, &said) {
		params, _ = ReadObject(said.Params) // they were received as JSON
	} else {
		params.Set("reason", String("", "the request has ended").Value)
	}
	params.Set("requestId", json.RawMessage(id))
	return params.JSON()
}

// addProgressHandler passes the client's progress notifications about a question to q.Progress
// until forget is called. The caller holds the lock, also for forget.
func (s *ServerSession) addProgressHandler(q Question) (forget func()) {
	token := progressToken(q.Params)
	if q.Progress == nil || token == "" {
		return func() {}
	}
	if s.progressHandlers == nil {
		s.progressHandlers = map[string][]func(json.RawMessage){}
	}
	s.progressHandlers[token] = append(s.progressHandlers[token], q.Progress)
	return func() {
		// If several questions share a token, none of them receives progress any more.
		if delete(s.progressHandlers, token); len(s.progressHandlers) == 0 {
			s.progressHandlers = nil
		}
	}
}

// handleProgress handles a progress notification of the client. If several questions have its
// token, none receives it, because it is unknown which one it is about.
func (s *ServerSession) handleProgress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	s.mu.Lock()
	open := s.progressHandlers[string(p.Token)]
	s.mu.Unlock()
	if len(open) == 1 {
		open[0](params)
	}
}

// progressToken returns the raw progress token in the parameters of a question, or "".
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

// handleAnswer passes on the client's response to a request.
func (s *ServerSession) handleAnswer(m *incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = time.Now()
	got := s.questions[string(m.ID)]
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
	return s.logLevel
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
	s.logLevel = p.Level
	return json.RawMessage("{}"), nil
}

// levels are the levels of log messages, least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// wantsLog reports whether a client that asked for the level wanted receives a log message. A
// message of an unknown level counts as less severe than all others.
func wantsLog(wanted string, params json.RawMessage) bool {
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

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	wire "github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

const (
	sessionHeader = "Mcp-Session-Id"
	// maxSessions is how many sessions are remembered; the client of one that
	// was forgotten begins another.
	maxSessions = 100_000
	// seenEvery is how often, at least, the SDK sees a request of a session that
	// is in use: it ends those that it sees none of for sessionTimeout.
	seenEvery = sessionTimeout / 10
)

// sessions are those of the older protocol, by id. Nobody but who began one may call in
// it; each call has the identity of its own request, see [withRequester].
type sessions struct {
	byID *lru.Cache[string, *session]

	mu      sync.Mutex
	ofOwner map[string][]*session // by the key of their identity
}

// maxOwned is how many live sessions one caller may have.
const maxOwned = 500

// full reports whether a caller has too many live sessions to begin another.
func (ss *sessions) full(owner string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.ofOwner[owner] = slices.DeleteFunc(ss.ofOwner[owner], func(s *session) bool {
		return s.gone() || time.Since(time.Unix(0, s.seen.Load())) > sessionTimeout
	})
	if len(ss.ofOwner[owner]) == 0 {
		delete(ss.ofOwner, owner)
	}
	return len(ss.ofOwner[owner]) >= maxOwned
}

// add remembers a session that has just begun.
func (ss *sessions) add(id string, s *session) {
	ss.byID.Add(id, s)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	owner := s.who.Key()
	ss.ofOwner[owner] = append(ss.ofOwner[owner], s)
}

// session is what is known of a session besides what the SDK knows.
type session struct {
	who  toolroom.Identity
	seen atomic.Int64         // when the SDK last saw a request, in Unix nanoseconds
	peer atomic.Pointer[peer] // nil until the client is initialized

	mu        sync.Mutex
	questions map[string][]func(json.RawMessage) // that are open, by their progress token
	calls     map[string]context.CancelCauseFunc // served without the SDK, by request id
	ended     bool
}

func newSessions() sessions {
	byID, err := lru.New[string, *session](maxSessions)
	if err != nil { // only a size below one is an error
		panic(err)
	}
	return sessions{byID: byID, ofOwner: map[string][]*session{}}
}

// begin notes that the client of a session has been initialized.
func (ss *sessions) begin(of *mcp.ServerSession) {
	if known, ok := ss.byID.Get(of.ID()); ok {
		known.begin(of)
	}
}

func (s *session) begin(of *mcp.ServerSession) {
	about := of.InitializeParams()
	if about == nil {
		return
	}
	p := &peer{version: about.ProtocolVersion, session: of.ID(), logs: true}
	p.take(about.Capabilities)
	s.peer.Store(p)
}

// direct gives a session whose calls may be served without the SDK now, and its
// client.
func (ss *sessions) direct(id string, who toolroom.Identity, version string) (*session, peer, bool) {
	known, ok := ss.byID.Get(id)
	if !ok || !identity.Reaches(who, known.who) || time.Since(time.Unix(0, known.seen.Load())) > seenEvery {
		return nil, peer{}, false
	}
	p := known.peer.Load()
	if p == nil || version != "" && version != p.version {
		return nil, peer{}, false
	}
	return known, *p, true
}

// enter notes a call, so that its client can cancel it. It is false where the id
// is in use, or the session has ended.
func (s *session) enter(id json.RawMessage, cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.calls[string(id)]; taken || s.ended {
		return false
	}
	if s.calls == nil {
		s.calls = map[string]context.CancelCauseFunc{}
	}
	s.calls[string(id)] = cancel
	return true
}

func (s *session) leave(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(id))
	if len(s.calls) == 0 {
		s.calls = nil
	}
}

// cancel ends a call, of which its client has said why.
func (s *session) cancel(id, said json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.calls[string(id)]; cancel != nil {
		cancel(&wire.Cancelled{Params: said})
	}
}

// gone reports whether its client has ended the session.
func (s *session) gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// end ends all calls.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for _, cancel := range s.calls {
		cancel(nil)
	}
}

// hear takes note of what a client says of its calls, and of its answers.
func (s *session) hear(m *incoming) {
	switch {
	case m == nil:
	case m.method == "notifications/cancelled":
		s.cancel(m.cancels, m.params)
	case m.method == "notifications/progress":
		s.progress(m.params)
	}
}

// follow has a question hear how far its answer is, until forget is called.
func (s *session) follow(q source.Question) (forget func()) {
	token := progressToken(q.Params)
	if s == nil || q.Progress == nil || token == "" {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.questions == nil {
		s.questions = map[string][]func(json.RawMessage){}
	}
	s.questions[token] = append(s.questions[token], q.Progress)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		// Where two share a token neither has heard of it any more.
		if delete(s.questions, token); len(s.questions) == 0 {
			s.questions = nil
		}
	}
}

// progress passes on how far an answer is. Where two questions have the same token
// it may be either's, and neither hears of it.
func (s *session) progress(said json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(said, &p) != nil {
		return
	}
	s.mu.Lock()
	open := s.questions[string(p.Token)]
	s.mu.Unlock()
	if len(open) == 1 {
		open[0](said)
	}
}

// progressToken is that of a question, as it is written; empty for none.
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

// known is what is known of a session, nil for nothing.
func (s *Server) known(of *mcp.ServerSession) *session {
	if known, ok := s.sessions.byID.Peek(of.ID()); ok {
		return known
	}
	known, _ := s.wires.Load(of)
	wire, _ := known.(*session)
	return wire
}

// inSession has the SDK serve a request of the older protocol, in a session of
// the caller's own or to begin one.
func (s *Server) inSession(next http.Handler, m *incoming, w http.ResponseWriter, r *http.Request) {
	who := s.o.Identity(r.Context())
	id := r.Header.Get(sessionHeader)
	known, ok := s.sessions.byID.Get(id)
	if id != "" {
		if !ok || !identity.Reaches(who, known.who) {
			// As for a session that has ended: the client begins a new one.
			http.Error(w, "session not found: initialize again", http.StatusNotFound)
			return
		}
		known.hear(m)
		if r.Method == http.MethodPost {
			known.seen.Store(time.Now().UnixNano())
		}
	}
	if id == "" && r.Method == http.MethodPost && s.sessions.full(who.Key()) {
		w.Header().Set("Retry-After", "60")
		http.Error(w, fmt.Sprintf("this caller has %d sessions, the most at once: end those that are not used (DELETE)", maxOwned), http.StatusTooManyRequests)
		return
	}
	if err := withRequester(r, who); err != nil {
		http.Error(w, "the caller's identity cannot be passed on", http.StatusInternalServerError)
		return
	}
	next.ServeHTTP(&sessionWriter{ResponseWriter: w, begun: func(begun string) {
		if begun != id {
			fresh := &session{who: who}
			fresh.seen.Store(time.Now().UnixNano())
			s.sessions.add(begun, fresh)
		}
	}}, r)
	if r.Method == http.MethodDelete && known != nil {
		s.sessions.byID.Remove(id)
		known.end()
	}
}

// sessionWriter sees the id of a session before the client does.
type sessionWriter struct {
	http.ResponseWriter
	begun func(id string)
	wrote bool
}

// WriteHeader notes the session and passes the header on.
func (w *sessionWriter) WriteHeader(status int) {
	if id := w.Header().Get(sessionHeader); !w.wrote && id != "" {
		w.begun(id)
	}
	w.wrote = true
	w.ResponseWriter.WriteHeader(status)
}

// Write passes the body on.
func (w *sessionWriter) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *sessionWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush sends what is buffered: streams depend on it.
func (w *sessionWriter) Flush() {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

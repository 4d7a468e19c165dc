package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	versionHeader = "MCP-Protocol-Version"
	// versionKey is versionHeader in canonical form, so that Get and Set need not convert it
	// for each request.
	versionKey    = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	eventHeader   = "Last-Event-ID"
	// streamDelay is the time after which the response to a request becomes a stream, which
	// networks do not cut when idle and clients can resume.
	streamDelay = 2 * time.Second
)

// HTTP returns the handler of streamable HTTP for clients of all revisions, at one
// URL. It does not check Host, Origin or credentials: wrap it in a handler that does.
func (s *Server) HTTP() http.Handler { return http.HandlerFunc(s.serveHTTP) }

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.serveOther(w, r)
		return
	}
	body, err := s.readAll(w, r)
	if err != nil {
		refuseBody(w, err)
		return
	}
	messages, failures, batch, err := readBody(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, parseErrorResponse(err))
		return
	}
	p := &post{s: s, w: w, r: r, messages: messages, failures: failures, batch: batch}
	p.modern = p.detectModern()
	if p.modern {
		if err := p.checkHeaders(); err != nil {
			p.refuseMismatch(err.Error())
			return
		}
	}
	requests := p.prepare()
	if p.modern {
		if err := p.checkParams(); err != nil {
			p.refuseMismatch("header mismatch: " + err.Error())
			return
		}
	}
	if s.o.Intercept != nil && s.o.Intercept(w, r, requests) {
		return // it has answered
	}
	if !p.checkCommonHeaders() {
		return
	}
	if p.modern {
		p.serveModern()
		return
	}
	p.serveLegacy()
}

// readAll reads a request's body, up to MaxMessage bytes. It replaces the body so that
// Intercept can read it again.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	limit := int64(s.o.MaxMessage)
	if n := r.ContentLength; n > 0 && n <= limit {
		body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		return nil, err
	}
	if s.o.Intercept != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body.Bytes())), int64(body.Len())
	}
	return body.Bytes(), nil
}

// refuse answers a POST whose messages are not served.
func refuse(w http.ResponseWriter, status int, text []byte) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has gone
}

func refuseBody(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	http.Error(w, "read the request body: "+err.Error(), status)
}

// post is one POST request.
type post struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	messages []*incoming
	failures []error // of invalid messages
	batch    bool
	modern   bool
}

// detectModern reports whether a POST is of 2026-07-28 or newer: by its protocol header or, if it
// has neither that nor a session, by the version in its body.
func (p *post) detectModern() bool {
	if version := p.r.Header.Get(versionKey); version != "" {
		return version >= modernVersion
	}
	return p.r.Header.Get(sessionHeader) == "" && !p.batch && p.messages[0].clientMeta.version != ""
}

// prepare prepares all requests and notifications, and returns them.
func (p *post) prepare() []*ServerRequest {
	var requests []*ServerRequest
	for _, m := range p.messages {
		if m == nil || m.Method == "" {
			continue
		}
		m.Header = p.r.Header
		p.s.prepare(p.r.Context(), m)
		requests = append(requests, &m.ServerRequest)
	}
	return requests
}

// checkCommonHeaders checks the headers that all revisions have. It returns false if it has
// refused the request.
func (p *post) checkCommonHeaders() bool {
	version := p.r.Header.Get(versionKey)
	json, stream := accepts(p.r.Header["Accept"])
	switch {
	case !isJSON(p.r.Header):
		http.Error(p.w, "Content-Type must be 'application/json'", http.StatusUnsupportedMediaType)
	case !json || !stream:
		p.refuse("Accept must contain both 'application/json' and 'text/event-stream'")
	case version != "" && !p.modern && !slices.Contains(legacyVersions, version):
		p.refuse(fmt.Sprintf("Bad Request: Unsupported protocol version (supported versions: %s)", strings.Join(versions, ",")))
	case p.r.Header.Get(eventHeader) != "":
		p.refuse("can't send Last-Event-ID for POST request")
	default:
		return true
	}
	return false
}

// refuse refuses the request as invalid.
func (p *post) refuse(message string) {
	refuse(p.w, http.StatusBadRequest, errorResponse(p.id(), CodeInvalidRequest, message))
}

// refuseMismatch refuses the request because its headers do not match its body.
func (p *post) refuseMismatch(message string) {
	id := p.id()
	if id == nil {
		id = []byte("null")
	}
	text, _ := encodeResponse(id, nil, &Error{Code: CodeHeaderMismatch, Message: strings.ToValidUTF8(message, "\uFFFD")}) // cannot fail
	refuse(p.w, http.StatusBadRequest, text)
}

// id returns the id of the request, or nil if there is not exactly one.
func (p *post) id() []byte {
	if p.batch || p.messages[0].Method == "" {
		return nil
	}
	return p.messages[0].ID
}

func isJSON(h http.Header) bool {
	value := h.Get("Content-Type")
	if value == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(value)
	return err == nil && kind == "application/json"
}

// accepts reports whether a client accepts JSON and streams.
func accepts(values []string) (json, stream bool) {
	for _, value := range values {
		for kind := range strings.SplitSeq(value, ",") {
			kind, _, _ = strings.Cut(kind, ";")
			switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				stream = true
			case "*/*":
				json, stream = true, true
			}
		}
	}
	return json, stream
}

// serveModern serves a message of 2026-07-28, which needs no session.
func (p *post) serveModern() {
	if p.batch {
		p.refuse("this revision has no batches: send one message in a request")
		return
	}
	m := p.messages[0]
	if m.ID == nil || m.Method == "" {
		if m.Method != "" { // responses are ignored: this revision has no requests to clients
			m.Version = modernVersion
			p.s.serve(p.r.Context(), m, nil)
		}
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	x := &postResponse{w: p.w, modern: true, pending: 1, wantsStream: p.s.o.Streams(m.Method, modernVersion)}
	err := m.identify(nil)
	if m.clientMeta.version == "" {
		err = &Error{Code: CodeInvalidParams, Message: fmt.Sprintf("missing or invalid _meta field %q", metaVersion)}
	}
	if err != nil {
		p.s.respondError(m.ID, x, err)
		return
	}
	ctx, cancel := context.WithCancel(p.r.Context())
	defer cancel()
	x.startTimer()
	defer x.end()
	p.s.serve(ctx, m, x)
}

// serveLegacy serves the messages of an older client, in its session or in a new one.
func (p *post) serveLegacy() {
	session, ok := p.findSession()
	if !ok {
		return
	}
	if p.batch && (len(p.messages) == 0 || p.version(session) > batchVersion) {
		p.refuse("this revision has no batches: send one message in a request")
		return
	}
	requests := 0
	for i, m := range p.messages {
		switch {
		case p.failures[i] != nil:
			p.refuse(p.failures[i].Error())
			return
		case m.clientMeta.version != "" && m.ID != nil && m.clientMeta.version >= modernVersion:
			failed := unsupportedVersion(legacyVersions, m.clientMeta.version, fmt.Sprintf("protocol version %q needs the header %s, and no session", m.clientMeta.version, versionHeader))
			text, _ := encodeResponse(m.ID, nil, failed) // cannot fail
			refuse(p.w, http.StatusBadRequest, text)
			return
		case m.Method != "" && m.ID != nil:
			requests++
		}
	}
	if requests == 0 {
		for _, m := range p.messages {
			p.handleOther(m, session)
		}
		p.w.WriteHeader(http.StatusAccepted)
		return
	}
	if session == nil && p.isInitialize() {
		if session, ok = p.newSession(); !ok {
			return
		}
		defer func() {
			if session.Version() == "" { // initialize was refused
				p.s.sessions.Remove(session.id)
			}
		}()
	}
	p.serveRequests(session, requests)
}

// isInitialize reports whether the POST is an initialize request, which begins a session.
func (p *post) isInitialize() bool { return !p.batch && p.messages[0].Method == "initialize" }

// version returns the revision of the client. A client that does not tell it speaks
// batchVersion, the revision before that header.
func (p *post) version(session *ServerSession) string {
	if session != nil && session.Version() != "" {
		return session.Version()
	}
	if version := p.r.Header.Get(versionKey); version != "" {
		return version
	}
	return batchVersion
}

// handleOther handles a notification or a response.
func (p *post) handleOther(m *incoming, session *ServerSession) {
	if m.Method == "" {
		if session != nil {
			session.handleAnswer(m)
		}
		return
	}
	_ = m.identify(session) // cannot fail for a notification
	p.s.serve(p.r.Context(), m, nil)
}

// findSession returns the session that the POST names, or nil if it needs none. It returns false
// if it has refused the request.
func (p *post) findSession() (*ServerSession, bool) {
	if id := p.r.Header.Get(sessionHeader); id != "" {
		return p.s.findSession(p.w, p.r, id)
	}
	if len(p.messages) == 0 {
		return nil, true
	}
	m := p.messages[0]
	if m == nil || m.Method == "" || m.ID == nil || m.Method == "ping" || p.isInitialize() {
		return nil, true
	}
	p.refuse("there is no session: send initialize first, and repeat its " + sessionHeader + " header")
	return nil, false
}

// newSession begins a session. It returns false if it has refused the request.
func (p *post) newSession() (*ServerSession, bool) {
	session, ok := p.s.newSession(p.r.Context())
	if !ok {
		p.w.Header().Set("Retry-After", "60")
		http.Error(p.w, fmt.Sprintf("this caller has %d sessions, the most at once, and all are in use", p.s.o.MaxSessions), http.StatusTooManyRequests)
	}
	return session, ok
}

// findSession returns a session that the caller may use. It returns false if it has refused the
// request.
func (s *Server) findSession(w http.ResponseWriter, r *http.Request, id string) (*ServerSession, bool) {
	session, ok := s.sessions.Get(id)
	if !ok || !s.o.MayUseSession(r.Context(), session) || !session.touch() {
		// The same response as for an ended session, after which the client begins a new one.
		http.Error(w, "session not found: initialize again", http.StatusNotFound)
		return nil, false
	}
	return session, true
}

// newSession begins a session over streamable HTTP. If its owner has the most sessions, it ends
// the one that has been idle longest. It returns false if none is idle, or the server is closed.
func (s *Server) newSession(ctx context.Context) (*ServerSession, bool) {
	session := newServerSession(ctx, s)
	session.id, session.streams = s.newID(), newStreams(s.events)
	session.sendAlone = func(text []byte) error { return session.streams.standalone.send(text, false) }
	s.mu.Lock()
	for !s.closed && s.sessionCounts[session.owner] >= s.o.MaxSessions {
		s.mu.Unlock()
		if !s.endIdlest(session.owner) {
			return nil, false
		}
		s.mu.Lock()
	}
	if s.closed {
		s.mu.Unlock()
		return nil, false
	}
	s.sessionCounts[session.owner]++
	s.live[session] = true
	s.mu.Unlock()
	s.sessions.Add(session.id, session)
	session.mu.Lock()
	over := session.closed // Close may have ended it
	if !over {
		session.expiry = time.AfterFunc(sessionTimeout, session.expire)
	}
	session.mu.Unlock()
	if over {
		s.sessions.Remove(session.id)
	}
	return session, !over
}

// endIdlest ends the session of an owner that has been idle longest. It returns false if all are
// in use.
func (s *Server) endIdlest(owner string) bool {
	var own []*ServerSession
	s.mu.Lock()
	for session := range s.live {
		if session.owner == owner && session.id != "" {
			own = append(own, session)
		}
	}
	s.mu.Unlock()
	var idlest *ServerSession
	var since time.Time
	for _, session := range own {
		if used, idle := session.idleSince(); idle && (idlest == nil || used.Before(since)) {
			idlest, since = session, used
		}
	}
	if idlest == nil {
		return false
	}
	idlest.endUnused(since) // if it has been used meanwhile, another one is looked for
	return true
}

// serveRequests serves the messages of the POST in a session, or a ping without one. The requests
// continue if the client's connection breaks.
func (p *post) serveRequests(session *ServerSession, requests int) {
	x := &postResponse{w: p.w, session: session, pending: requests}
	base := context.WithoutCancel(p.r.Context())
	first := p.messages[0]
	if session != nil {
		p.w.Header().Set(sessionHeader, session.id)
	}
	streams := session != nil && p.s.o.Streams(first.Method, session.Version())
	if p.batch || streams {
		x.makeStream()
	}
	x.startTimer()
	defer x.end()
	if !p.batch && !streams {
		p.serveRequest(base, first, session, x)
		return
	}
	var work sync.WaitGroup
	for _, m := range p.messages {
		if m.Method == "" || m.ID == nil {
			p.handleOther(m, session)
			continue
		}
		work.Go(func() { p.serveRequest(base, m, session, x) })
	}
	if streams {
		select { // the stream may be released before the requests have ended
		case <-x.done():
		case <-p.r.Context().Done():
		}
		return
	}
	work.Wait()
}

// serveRequest serves one request in a session.
func (p *post) serveRequest(ctx context.Context, m *incoming, session *ServerSession, x *postResponse) {
	err := m.identify(session)
	if err == nil && session != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		err = session.addRequest(m.ID, cancel)
	}
	switch {
	case err != nil:
		p.s.respondError(m.ID, x, err)
	case session != nil:
		p.s.serve(ctx, m, sessionResponder{x, session})
	default:
		p.s.serve(ctx, m, x)
	}
}

// batchVersion is the last revision with batches.
const batchVersion = "2025-03-26"

// serveOther serves GET, which opens a stream, and DELETE, which ends a session. Modern clients
// send neither.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) {
	modern := r.Header.Get(versionKey) >= modernVersion
	if modern || r.Method != http.MethodGet && r.Method != http.MethodDelete {
		allow := "GET, POST, DELETE"
		if modern {
			allow = "POST"
		}
		w.Header().Set("Allow", allow)
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	if s.o.Intercept != nil && s.o.Intercept(w, r, nil) {
		return
	}
	if version := r.Header.Get(versionKey); version != "" && !slices.Contains(legacyVersions, version) {
		http.Error(w, fmt.Sprintf("Bad Request: Unsupported protocol version (supported versions: %s)", strings.Join(versions, ",")), http.StatusBadRequest)
		return
	}
	if _, stream := accepts(r.Header["Accept"]); r.Method == http.MethodGet && !stream {
		http.Error(w, "Accept must contain 'text/event-stream' for GET requests", http.StatusBadRequest)
		return
	}
	id := r.Header.Get(sessionHeader)
	if id == "" {
		http.Error(w, "Bad Request: "+r.Method+" requires an Mcp-Session-Id header", http.StatusBadRequest)
		return
	}
	session, ok := s.findSession(w, r, id)
	if !ok {
		return
	}
	if r.Method == http.MethodDelete {
		session.end() // before responding, so that the client may begin another session then
		s.sessions.Remove(id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.serveStream(w, r, session)
}

// serveStream connects a client to the stream for messages that belong to no request, or to one
// that it resumes.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, session *ServerSession) {
	stream, after := session.streams.standalone, -1
	if last := r.Header.Get(eventHeader); last != "" {
		var err error
		if stream, after, err = session.streams.find(last); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest) // 404 would mean that the session has ended
			return
		}
	} else if stream.connected() {
		http.Error(w, "the session has such a stream already", http.StatusConflict)
		return
	}
	w.Header().Set(sessionHeader, session.id)
	receiver, err := stream.connect(w, after)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer stream.disconnect(receiver)
	select {
	case <-receiver.gone:
	case <-r.Context().Done():
	case <-session.ended:
	case <-s.done:
	}
}

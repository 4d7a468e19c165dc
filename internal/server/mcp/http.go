package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// endpoint serves clients of both eras at one URL.
type endpoint struct {
	s              *Server
	modern, legacy http.Handler // the SDK's
}

// HTTP is the endpoint for clients of both eras. Requests of 2026-07-28 stand
// alone; older clients have sessions. Package auth must stand in front: it checks
// Host and Origin, and knows when a token makes a foreign Host harmless.
func (s *Server) HTTP() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.server }
	return &endpoint{
		s: s,
		modern: mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
			Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true,
		}),
		legacy: mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
			SessionTimeout: sessionTimeout, MaxRequestBodyBytes: maxBody, DisableLocalhostProtection: true,
			// What a client missed while its connection was gone, it gets when it
			// comes back; the store drops the oldest when it is full.
			EventStore: mcp.NewMemoryEventStore(nil),
		}),
	}
}

// ServeHTTP serves one request.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m *incoming
	var body []byte
	if r.Method == http.MethodPost {
		var err error
		if body, err = readBody(w, r); err != nil {
			refuse(w, err)
			return
		}
		m, _ = readIncoming(body)
		if err := refuseAmbiguous(body, m); err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(ambiguous(err)) // a client that does not read it has gone
			return
		}
		r.Body = http.NoBody // has been read; rebody puts it back
		w = &refusalWriter{ResponseWriter: w, m: m, streamable: true}
	}
	modern := speaksModern(r, m, body)
	if modern && body != nil {
		if err := e.s.checkHeaders(r, body); err != nil {
			refuse(w, err)
			return
		}
	}
	if other := e.s.elsewhere(r, m); other != nil {
		if body != nil {
			rebody(r, body)
		}
		if refusals, ok := w.(*refusalWriter); ok {
			refusals.streamable = false
		}
		other.ServeHTTP(w, r)
		return
	}
	if body != nil && e.s.stepUp(w, r, body) {
		return
	}
	if m != nil && m.direct(r) {
		if modern && e.directly(w, r, m) || !modern && e.inSession(w, r, m) {
			return
		}
	}
	if modern {
		e.s.keepAlive(e.s.parked(e.modern, m, body), w, r, keepAlivePeriod)
		return
	}
	if m != nil && m.method != "initialize" && m.method != "ping" && m.answerable() && r.Header.Get(sessionHeader) == "" {
		http.Error(w, "there is no session: send initialize first, and repeat its "+sessionHeader+" header", http.StatusBadRequest)
		return
	}
	next := e.s.parked(e.legacy, m, body)
	e.s.keepAlive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.s.inSession(next, m, w, r) }), w, r, keepAlivePeriod)
}

// readBody reads a request's body, bounded.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body bytes.Buffer
	if n := r.ContentLength; n > 0 && n <= maxBody {
		body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

func rebody(r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
}

// direct reports whether a request may be served without the SDK, as far as both
// eras have the same rules. What may not, the SDK serves or refuses.
func (m *incoming) direct(r *http.Request) bool {
	return m.method == "tools/call" && !m.odd && m.name != "" && m.answerable() &&
		contentIsJSON(r.Header) && acceptsBoth(r.Header) && r.Header.Get("Last-Event-ID") == ""
}

func contentIsJSON(h http.Header) bool {
	value := h.Get("Content-Type")
	if value == "application/json" {
		return true
	}
	kind, _, err := mime.ParseMediaType(value)
	return err == nil && kind == "application/json"
}

// acceptsBoth reports whether a client takes an answer in one piece and a stream.
func acceptsBoth(h http.Header) bool {
	values := h["Accept"]
	return len(values) == 1 && strings.Contains(values[0], "application/json") && strings.Contains(values[0], "text/event-stream")
}

// directly serves a call of 2026-07-28. It is false where the SDK must.
func (e *endpoint) directly(w http.ResponseWriter, r *http.Request, m *incoming) bool {
	if r.Header.Get("MCP-Protocol-Version") != m.version || r.Header.Get(methodHeader) != m.method || r.Header.Get(nameHeader) != m.name {
		return false
	}
	p, ok := modernPeer(m)
	if !ok {
		return false
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	e.answer(ctx, w, m, p, &direct{s: e.s, cancel: cancel, meta: m.meta, give: func(name string) {
		rebody(r, m.named(name))
		e.s.keepAlive(e.modern, w, r, keepAlivePeriod)
	}})
	return true
}

// inSession serves a call in a session of an older client, which may go on when
// the client's connection breaks. It is false where the SDK must serve it.
func (e *endpoint) inSession(w http.ResponseWriter, r *http.Request, m *incoming) bool {
	id := r.Header.Get(sessionHeader)
	session, p, ok := e.s.sessions.direct(id, e.s.o.Identity(r.Context()), r.Header.Get("MCP-Protocol-Version"))
	if !ok || m.version != "" || e.s.polls(p.version) {
		return false
	}
	p.progress = progressOf(m)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	if !session.enter(m.id, cancel) {
		return false
	}
	defer session.leave(m.id)
	w.Header().Set(sessionHeader, id)
	e.answer(ctx, w, m, p, &direct{s: e.s, cancel: func() { cancel(nil) }, meta: m.meta, give: func(name string) {
		rebody(r, m.named(name))
		e.s.keepAlive(e.legacy, w, r, keepAlivePeriod)
	}})
	return true
}

func (e *endpoint) answer(ctx context.Context, w http.ResponseWriter, m *incoming, p peer, d *direct) {
	result, ours := d.serve(ctx, m.toolRequest(p))
	if !ours {
		return
	}
	text, err := e.s.answerText(m, result)
	if err != nil {
		refuse(w, err)
		return
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noCache
	h["Content-Length"] = []string{strconv.Itoa(len(text))}
	// A client that does not read its answer has gone.
	_, _ = w.Write(text)
}

var (
	jsonType = []string{"application/json"}
	noCache  = []string{"no-cache, no-transform"}
)

// refuse answers a request that never became a message.
func refuse(w http.ResponseWriter, err error) {
	if m := (*headerMismatch)(nil); errors.As(err, &m) {
		m.write(w)
		return
	}
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	http.Error(w, "read the request body: "+err.Error(), status)
}

// toolRequest is the call that a message asks for.
func (m *incoming) toolRequest(p peer) *toolRequest {
	return &toolRequest{peer: p, name: m.name, arguments: m.arguments, meta: m.meta, more: m.besides(), key: m.key, state: m.state, answers: m.answers}
}

// answerText is a message's answer.
func (s *Server) answerText(m *incoming, result mcp.Result) ([]byte, error) {
	text := make([]byte, 0, 1024)
	text = append(text, `{"jsonrpc":"2.0","id":`...)
	text = append(text, m.id...)
	text = append(text, `,"result":`...)
	out, ok := result.(*wireResult)
	if !ok {
		body, err := json.Marshal(result)
		return append(append(text, body...), '}'), err
	}
	if m.version != "" {
		out.SetMeta(mcp.Meta{mcp.MetaKeyServerInfo: s.self})
	}
	text, err := out.append(text)
	return append(text, '}'), err
}

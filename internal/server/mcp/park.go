package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// parked has the SDK serve a request whose body we have read.
func (s *Server) parked(next http.Handler, m *incoming, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body != nil {
			id := r.Header.Get(sessionHeader)
			known, _ := s.sessions.byID.Peek(id)
			text, leave := s.park(m, body, id, known)
			defer leave()
			rebody(r, text)
		}
		next.ServeHTTP(w, r)
	})
}

// park readies what a client sent for the SDK: what that cannot read byte for
// byte is kept for when it calls back. m is the message, nil where there is not
// exactly one. known is the client's session, by the id that the SDK has for it; nil
// for none. leave must be called when the SDK is done.
func (s *Server) park(m *incoming, text []byte, session string, known *session) (ready []byte, leave func()) {
	if m != nil {
		return s.parkRequest(m, known)
	}
	nothing := func() {}
	if reply, ok := s.replies.park(session, text); ok {
		return reply, nothing
	}
	if text = bytes.TrimLeft(text, " \t\r\n"); len(text) == 0 || text[0] != '[' {
		return text, nothing
	}
	return s.parkBatch(text, session, known)
}

// batchRevision is the only revision that has batches.
const batchRevision = "2025-03-26"

// parkBatch readies the messages of a batch, which clients of 2025-03-26 send.
func (s *Server) parkBatch(text []byte, session string, known *session) (ready []byte, leave func()) {
	var batch []json.RawMessage
	if json.Unmarshal(text, &batch) != nil {
		return text, func() {}
	}
	var leaves []func()
	ready = []byte{'['}
	for i, one := range batch {
		if i > 0 {
			ready = append(ready, ',')
		}
		// A batch in a batch is the SDK's to refuse.
		if m, ok := readIncoming(one); ok || isObject(one) {
			var left func()
			one, left = s.park(m, one, session, known)
			leaves = append(leaves, left)
		}
		ready = append(ready, one...)
	}
	return append(ready, ']'), func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

func (s *Server) parkRequest(m *incoming, known *session) (ready []byte, leave func()) {
	if m.odd || m.paramsStart == 0 || !m.answerable() {
		return m.text, func() {}
	}
	what := parked{meta: m.meta, more: m.besides(), arguments: m.arguments, params: m.params, answers: m.answers, id: m.id, known: known}
	switch m.method {
	case "tools/call":
		what.join = func(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
			ctx, leave := what.within(ctx)
			defer leave()
			p := peerOf(ctx, req.Session, req.ClientCapabilities(), req.Params.GetProgressToken())
			return s.call(ctx, m.toolRequest(p))
		}
	case "prompts/get", "resources/read", "completion/complete":
	default:
		return m.text, func() {}
	}
	name := parkedName()
	s.parking.put(name, what)
	return m.named(name), func() { s.parking.drop(name) }
}

// maxParked is how many messages of one client are kept for the SDK where it does
// not say when it is done with one.
const maxParked = 256

// leaves drop what the SDK has of a client, the oldest first.
type leaves struct {
	mu  sync.Mutex
	all []func()
}

func (l *leaves) add(leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, leave)
	if len(l.all) > maxParked {
		l.all[0]()
		l.all = l.all[1:]
	}
}

// leave drops all.
func (l *leaves) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, leave := range l.all {
		leave()
	}
	l.all = nil
}

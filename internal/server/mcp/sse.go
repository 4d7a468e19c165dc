package mcpserver

import (
	"crypto/rand"
	"mime"
	"net/http"
	"reflect"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sseSession is a client of the two endpoints of 2024-11-05.
type sseSession struct {
	transport *mcp.SSEServerTransport
	stream    *batchWriter
	sent      leaves
	known     session
}

// SSE is the endpoint for clients of 2024-11-05 that know no other: they listen
// to one stream and post their messages to an address that it names.
func (s *Server) SSE() http.Handler {
	var mu sync.Mutex
	sessions := map[string]*sseSession{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := s.o.Identity(r.Context())
		switch r.Method {
		case http.MethodGet:
			id := rand.Text()
			s.keepAlive(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Cache-Control", "no-cache, no-transform")
				stream := &batchWriter{ResponseWriter: w, standIns: s.standIns}
				client := &sseSession{known: session{who: who}, stream: stream, transport: &mcp.SSEServerTransport{
					Endpoint: r.URL.Path + "?session=" + id, Response: stream, MaxRequestBodyBytes: maxBody,
				}}
				mu.Lock()
				sessions[id] = client
				mu.Unlock()
				defer func() {
					client.sent.leave()
					stream.end()
					mu.Lock()
					defer mu.Unlock()
					delete(sessions, id)
				}()
				s.serveSSE(r, client)
			}), w, r, keepAlivePeriod)
		case http.MethodPost:
			mu.Lock()
			session := sessions[r.URL.Query().Get("session")]
			mu.Unlock()
			// Whoever has seen the address is not yet its owner, and the SDK serves all calls
			// with the identity of the stream: another token of its owner is another one.
			if session == nil || !reflect.DeepEqual(session.known.who, who) {
				http.Error(w, "session not found: open the stream again", http.StatusNotFound)
				return
			}
			// A web page of another origin can post text without being asked.
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
				http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
				return
			}
			body, err := readBody(w, r)
			if err != nil {
				refuse(w, err)
				return
			}
			m, _ := readIncoming(body)
			if err := refuseAmbiguous(body, m); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			posted, err := session.stream.messages(body)
			if err != nil || len(posted) == 0 {
				w.WriteHeader(http.StatusAccepted) // what there is to say goes to the stream, if that is there
				return
			}
			answer := &postAnswer{ResponseWriter: w}
			for _, message := range posted {
				m, _ := readIncoming(message)
				session.known.hear(m)
				text, leave := s.park(m, message, "", &session.known) // the SDK names no session of this kind
				session.sent.add(leave)
				rebody(r, text)
				answer.status = 0
				session.transport.ServeHTTP(answer, r)
				if answer.status >= http.StatusBadRequest {
					session.stream.refused(message)
				}
			}
		default:
			w.Header().Set("Allow", "GET, POST")
			http.Error(w, "GET opens the stream, POST sends a message", http.StatusMethodNotAllowed)
		}
	})
}

// postAnswer is the answer to a POST of several messages: that to the first. The
// SDK of these sessions takes one at a time.
type postAnswer struct {
	http.ResponseWriter
	said   bool
	status int // of the answer to this message
}

// WriteHeader writes the status of the first answer.
func (a *postAnswer) WriteHeader(status int) {
	a.status = status
	if !a.said {
		a.said = true
		a.ResponseWriter.WriteHeader(status)
	}
}

// serveSSE serves a stream until its client leaves.
func (s *Server) serveSSE(r *http.Request, client *sseSession) {
	session, err := s.server.Connect(r.Context(), client.transport, nil)
	if err != nil {
		s.o.Log.Warn("cannot open a stream", "error", err)
		return
	}
	s.wires.Store(session, &client.known)
	defer s.wires.Delete(session)
	<-r.Context().Done()
	// The client has gone: what cannot be told to it is no failure.
	_ = session.Close()
}

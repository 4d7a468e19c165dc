package mcpserver

import (
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	sessionHeader = "Mcp-Session-Id"
	// maxSessions is how many sessions are remembered; the client of one that
	// was forgotten begins another.
	maxSessions = 100_000
)

// sessionOwners remembers who began each session of the older protocol. The SDK
// runs every call of a session in the context of its first request; so nobody
// else may call in it, whatever token they bring.
type sessionOwners struct {
	byID *lru.Cache[string, string]
}

func newSessionOwners() sessionOwners {
	byID, err := lru.New[string, string](maxSessions)
	if err != nil { // only a size below one is an error
		panic(err)
	}
	return sessionOwners{byID}
}

// inSession serves a request of the older protocol, in a session of the caller's
// own or to begin one.
func (s *Server) inSession(next http.Handler, w http.ResponseWriter, r *http.Request) {
	who := s.o.Identity(r.Context()).Key()
	if id := r.Header.Get(sessionHeader); id != "" {
		if owner, known := s.owners.byID.Get(id); !known || owner != who {
			// As for a session that has ended: the client begins a new one.
			http.Error(w, "there is no such session; initialize again", http.StatusNotFound)
			return
		}
	}
	next.ServeHTTP(&sessionWriter{ResponseWriter: w, begun: func(id string) { s.owners.byID.Add(id, who) }}, r)
	if r.Method == http.MethodDelete {
		s.owners.byID.Remove(r.Header.Get(sessionHeader))
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

package mcpserver

import (
	"crypto/rand"
	"net/http"
	"strings"
)

// What is in the memory of one server, a session or a call that waits for answers,
// names the server to its client, and other servers hand its requests on.

// sessionID is the id of a new session.
func (s *Server) sessionID() string {
	if s.o.Replica == "" {
		return rand.Text()
	}
	return s.o.Replica + "." + rand.Text()
}

// elsewhere is who serves a request that belongs to another server, nil where that
// is this one, or has gone.
func (s *Server) elsewhere(r *http.Request, m *incoming) http.Handler {
	if s.o.Neighbour == nil {
		return nil
	}
	id, _, _ := strings.Cut(r.Header.Get(sessionHeader), ".")
	if m != nil && m.state != "" {
		id = s.rounds.sealer.replica(m.state)
	}
	if id == "" || id == s.o.Replica {
		return nil
	}
	return s.o.Neighbour(id)
}

package mcpserver

import (
	"encoding/json"
	"net/http"

	"github.com/toolroom/toolroom"
)

// Scopes tells what the token of a caller does not reach.
type Scopes struct {
	// Lacking are the scopes that a caller lacks for a tool.
	Lacking func(who toolroom.Identity, t *toolroom.Tool) []string
	// Refuse answers a request whose token lacks scopes, so that the client can
	// ask for more.
	Refuse func(w http.ResponseWriter, who toolroom.Identity, missing []string)
}

// stepUp refuses a call whose token does not reach its tool before the call
// begins: only an HTTP status makes a client ask for more. It reports whether it
// did. What it does not see, the runner refuses.
func (s *Server) stepUp(w http.ResponseWriter, r *http.Request, body []byte) bool {
	who := s.o.Identity(r.Context())
	if s.o.Scopes.Lacking == nil || who.Scopes == nil || r.Method != http.MethodPost {
		return false
	}
	var message struct {
		Method string `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil || message.Method != "tools/call" {
		return false
	}
	name := message.Params.Name
	if name == callTool {
		var inner struct {
			Tool string `json:"tool"`
		}
		if json.Unmarshal(message.Params.Arguments, &inner) == nil && inner.Tool != "" {
			name = inner.Tool
		}
	}
	e, err := s.o.Runner.Catalog.Resolve(name, nil)
	if err != nil || !s.visible(who)(e) {
		return false // the call itself says what is wrong
	}
	missing := s.o.Scopes.Lacking(who, &e.Tool)
	if len(missing) == 0 {
		return false
	}
	s.o.Scopes.Refuse(w, who, missing)
	return true
}

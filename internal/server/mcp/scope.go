package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Scopes finds the scopes that a caller's token lacks.
type Scopes struct {
	// Lacking returns the scopes that a caller lacks for a tool.
	Lacking func(who toolroom.Identity, t *toolroom.Tool) []string
	// Refuse responds to a request whose token lacks scopes, so that the client can
	// request a token with them.
	Refuse func(w http.ResponseWriter, who toolroom.Identity, missing []string)
}

// stepUp refuses a call if its token lacks scopes of its tool, and reports whether it
// did. It does so before the call begins, because only an HTTP status makes a client
// request a token with more scopes. Otherwise the runner refuses the call.
func (s *Server) stepUp(w http.ResponseWriter, r *http.Request, body []byte) bool {
	who := s.o.Identity(r.Context())
	if s.o.Scopes.Lacking == nil || who.Scopes == nil || r.Method != http.MethodPost {
		return false
	}
	batch := []json.RawMessage{body}
	if text := bytes.TrimLeft(body, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		batch = nil
		if jsonx.Unmarshal(body, &batch, jsonx.Limits{Bytes: maxBody}) != nil {
			return false
		}
	}
	for _, message := range batch {
		if missing := s.lacking(r.Context(), who, message); len(missing) > 0 {
			s.o.Scopes.Refuse(w, who, missing)
			return true
		}
	}
	return false
}

// lacking returns the scopes that a caller lacks for the call in a message.
func (s *Server) lacking(ctx context.Context, who toolroom.Identity, text []byte) []string {
	var message struct {
		Method string `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if jsonx.Unmarshal(text, &message, jsonx.Limits{Bytes: maxBody}) != nil || message.Method != "tools/call" {
		return nil
	}
	name := message.Params.Name
	if name == callTool {
		var inner struct {
			Tool string `json:"tool"`
		}
		if jsonx.Unmarshal(message.Params.Arguments, &inner, jsonx.Limits{Bytes: maxBody}) == nil && inner.Tool != "" {
			name = inner.Tool
		}
	}
	e, err := s.o.Runner.Find(ctx, name, nil)
	if err != nil || !s.visible(who)(e) {
		return nil // the call itself reports the error
	}
	return s.o.Scopes.Lacking(who, &e.Tool)
}

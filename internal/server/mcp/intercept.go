package mcp

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/mcp"
)

// Scopes finds the scopes that a caller's token lacks.
type Scopes struct {
	// Lacking returns the scopes that a caller lacks for a tool.
	Lacking func(who toolroom.Identity, t *toolroom.Tool) []string
	// Refuse responds to a request whose token lacks scopes, so that the client can
	// request a token with them.
	Refuse func(w http.ResponseWriter, who toolroom.Identity, missing []string)
}

// prepare resolves the tool that a request calls, once for all that is done with it. The
// source of a tool that is not known yet is listed later, see [called.find], except for what
// looks at the tool before the call.
func (s *Server) prepare(ctx context.Context, r *mcp.ServerRequest) {
	if r.Method != "tools/call" {
		return
	}
	t := &called{name: r.Name}
	r.Value = t
	target := r.Name
	if slices.Contains(s.expose.of(s.o.Identity(ctx)).ownNames(), r.Name) {
		switch r.Name {
		case callTool:
			var inner struct {
				Tool string `json:"tool"`
			}
			if jsonx.Unmarshal(r.Arguments, &inner, jsonx.Limits{Bytes: maxBody}) != nil || inner.Tool == "" {
				return // the call itself reports the error
			}
			target = inner.Tool
		case executeCode:
			target = code.Tool
		default:
			return
		}
	} else if _, ok := s.sourceSearched(s.o.Identity(ctx), r.Name); ok {
		return
	}
	who := s.o.Identity(ctx)
	ctx = s.offering(ctx, who)
	t.target = &toolroom.Call{Tool: target, Identity: who, Environment: s.environment(ctx)}
	if s.o.Scopes.Lacking != nil || r.Header.Get("Mcp-Protocol-Version") >= firstModern {
		t.find(ctx, s.o.Runner)
		return
	}
	t.entry, _ = s.o.Runner.LookupOffered(ctx, t.target) // the call itself reports the error
}

// find finds the tool that a request calls. That may take as long as starting its server, and
// ends with the request.
func (t *called) find(ctx context.Context, r *run.Runner) {
	if t.entry == nil && t.target != nil {
		t.entry, _ = r.Find(ctx, t.target) // the call itself reports the error
		t.target = nil
	}
}

// offering returns a context in which the tools that are hidden from a caller are not found.
func (s *Server) offering(ctx context.Context, who toolroom.Identity) context.Context {
	hidden := s.expose.of(who).Hidden
	if len(hidden) == 0 {
		return ctx
	}
	return run.WithOffer(ctx, func(e *catalog.Entry) bool { return !policy.AnyMatches(hidden, &e.Tool) })
}

// headerParams are the arguments that the headers of a call must repeat. A schema with a
// wrong annotation has none: clients leave such a tool out.
func (s *Server) headerParams(r *mcp.ServerRequest) []mcp.HeaderParam {
	t, ok := r.Value.(*called)
	if !ok || t.entry == nil || t.name == callTool || t.name == executeCode {
		return nil
	}
	params, err := mcp.HeaderParams(t.entry.Tool.InputSchema)
	if err != nil {
		return nil
	}
	return params
}

// intercept answers what this server does not serve: a request that belongs to another
// server of the home, and a call whose token lacks scopes of its tool. That is refused
// before the call begins, because only an HTTP status makes a client request a token with
// more scopes; otherwise the runner refuses the call.
func (s *Server) intercept(w http.ResponseWriter, r *http.Request, requests []*mcp.ServerRequest) bool {
	if other := s.elsewhere(r, requests); other != nil {
		other.ServeHTTP(w, r)
		return true
	}
	if s.o.Scopes.Lacking == nil {
		return false
	}
	who := s.o.Identity(r.Context())
	if who.Scopes == nil {
		return false
	}
	for _, request := range requests {
		t, ok := request.Value.(*called)
		if !ok || t.entry == nil || !s.allowed(who, t.entry) {
			continue // the call itself reports the error
		}
		if missing := s.o.Scopes.Lacking(who, &t.entry.Tool); len(missing) > 0 {
			s.o.Scopes.Refuse(w, who, missing)
			return true
		}
	}
	return false
}

// What is in the memory of one server, a session or a call that waits for answers,
// names the server to its client, and other servers forward its requests to it.

// sessionID is the id of a new session.
func (s *Server) sessionID() string {
	if s.o.Replica == "" {
		return rand.Text()
	}
	return s.o.Replica + "." + rand.Text()
}

// elsewhere is the handler that forwards a request to the server that it belongs to, or
// nil if that is this one or has gone.
func (s *Server) elsewhere(r *http.Request, requests []*mcp.ServerRequest) http.Handler {
	if s.o.Neighbour == nil {
		return nil
	}
	id, _, _ := strings.Cut(r.Header.Get("Mcp-Session-Id"), ".")
	if len(requests) == 1 && requests[0].RequestState != "" {
		id = s.rounds.sealer.replica(requests[0].RequestState)
	}
	if id == "" || id == s.o.Replica {
		return nil
	}
	return s.o.Neighbour(id)
}

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

// prepare resolves the tool that a request calls, once for the whole request. If the source
// of the tool must be listed first, that is left to [calledTool.resolve], unless scopes or
// headers have to be checked before the call.
func (s *Server) prepare(ctx context.Context, r *mcp.ServerRequest) {
	if r.Method != "tools/call" {
		return
	}
	t := &calledTool{name: r.Name}
	r.Value = t
	target := r.Name
	if slices.Contains(s.expose.forCaller(s.o.Identity(ctx)).ownNames(), r.Name) {
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
	} else if _, ok := s.sourceSearchNamespace(s.o.Identity(ctx), r.Name); ok {
		return
	}
	who := s.o.Identity(ctx)
	t.who = who
	ctx = s.withoutHidden(ctx, who)
	t.pending = &toolroom.Call{Tool: target, Identity: who, Environment: s.environment(ctx)}
	if s.o.Scopes.Lacking != nil || r.Header.Get("Mcp-Protocol-Version") >= firstModern {
		t.resolve(ctx, s.o.Runner)
		return
	}
	t.entry, _ = s.o.Runner.LookupOffered(ctx, t.pending) // the call itself reports the error
}

// resolve finds the tool if prepare has not. That may start the tool's server, and ends
// when ctx does.
func (t *calledTool) resolve(ctx context.Context, r *run.Runner) {
	if t.entry == nil && t.pending != nil {
		t.entry, _ = r.Find(ctx, t.pending) // the call itself reports the error
		t.pending = nil
	}
}

// withoutHidden returns a context in which the runner does not find the tools that are
// hidden from a caller.
func (s *Server) withoutHidden(ctx context.Context, who toolroom.Identity) context.Context {
	hidden := s.expose.forCaller(who).Hidden
	if len(hidden) == 0 {
		return ctx
	}
	return run.WithOffer(ctx, func(e *catalog.Entry) bool { return !policy.MatchesTool(hidden, &e.Tool) })
}

// headerParams returns the arguments that the headers of a call must repeat. It returns none
// if an annotation in the schema is wrong, because clients ignore such a tool, and none to a
// caller that may not call the tool, because they describe it: the call is denied.
func (s *Server) headerParams(r *mcp.ServerRequest) []mcp.HeaderParam {
	t, ok := r.Value.(*calledTool)
	if !ok || t.entry == nil || t.name == callTool || t.name == executeCode {
		return nil
	}
	params, err := mcp.HeaderParams(t.entry.Tool.InputSchema)
	if err != nil || len(params) > 0 && !s.allowed(t.who, t.entry) {
		return nil
	}
	return params
}

// intercept handles requests that this server does not serve: it forwards those that belong
// to another server of the home, and refuses calls whose token lacks a scope of the tool.
// They are refused here because a client requests a token with more scopes only after an
// HTTP status; in all other cases the runner refuses them.
func (s *Server) intercept(w http.ResponseWriter, r *http.Request, requests []*mcp.ServerRequest) bool {
	if other := s.otherServer(r, requests); other != nil {
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
		t, ok := request.Value.(*calledTool)
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

// Sessions and suspended calls are in the memory of one server. Their ids name that server,
// so that other servers of the home can forward requests to it.

// newSessionID returns an id for a session.
func (s *Server) newSessionID() string {
	if s.o.Replica == "" {
		return rand.Text()
	}
	return s.o.Replica + "." + rand.Text()
}

// otherServer returns a handler that forwards a request to the server that it belongs to. It
// returns nil if that is this server, or one that no longer runs.
func (s *Server) otherServer(r *http.Request, requests []*mcp.ServerRequest) http.Handler {
	if s.o.ForwardTo == nil {
		return nil
	}
	id, _, _ := strings.Cut(r.Header.Get("Mcp-Session-Id"), ".")
	if len(requests) == 1 && requests[0].RequestState != "" {
		id = s.rounds.sealer.replicaOf(requests[0].RequestState)
	}
	if id == "" || id == s.o.Replica {
		return nil
	}
	return s.o.ForwardTo(id)
}

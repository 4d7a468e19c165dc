package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/schema"
)

// toolRequest is a request of tools/call, read by us or by the SDK.
type toolRequest struct {
	peer
	name      string
	arguments json.RawMessage
	meta      json.RawMessage
	more      json.RawMessage // what else the client says
	key       string          // of idempotency
	state     string
	answers   map[string]json.RawMessage
}

// toolRequestOf is a request that the SDK has read: of a batch, for example.
func toolRequestOf(ctx context.Context, req *mcp.CallToolRequest) (*toolRequest, error) {
	answers, err := rawAnswers(req.Params.InputResponses)
	key, _ := req.Params.GetMeta()[metaKey].(string)
	return &toolRequest{
		peer: peerOf(ctx, req.Session, req.ClientCapabilities(), req.Params.GetProgressToken()),
		name: req.Params.Name, arguments: req.Params.Arguments, meta: said(req.Params.Meta), key: key,
		state: req.Params.RequestState, answers: answers,
	}, err
}

// metaKey is where a client may put an idempotency key: the 2026-07-28 protocol
// has no other safe way to repeat a call.
const metaKey = "toolroom/idempotencyKey"

// callOf serves a request that came through the SDK: one that waits for this, or
// one that we have not read.
func (s *Server) callOf(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	defer s.pollAfter(req)()
	if p, ok := s.parking.take(req.Params.GetMeta()); ok && p.join != nil {
		return p.join(ctx, req)
	}
	call, err := toolRequestOf(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.call(ctx, call)
}

// call runs a tool, or one of the search tools.
func (s *Server) call(ctx context.Context, req *toolRequest) (mcp.Result, error) {
	if tool, ok := s.meta[req.name]; ok && slices.Contains(s.expose.now().ownNames(), req.name) {
		return tool.handle(ctx, req)
	}
	if namespace, ok := s.sourceSearched(s.o.Identity(ctx), req.name); ok {
		return s.searchSource(ctx, req, namespace)
	}
	return s.run(ctx, req, req.name, req.arguments)
}

// environment returns the environment that the client has chosen.
func (s *Server) environment(ctx context.Context) string {
	if s.o.Environment == nil {
		return ""
	}
	return s.o.Environment(ctx)
}

// run makes a request a call and the result an answer.
func (s *Server) run(ctx context.Context, req *toolRequest, tool string, args json.RawMessage) (mcp.Result, error) {
	e, err := s.o.Runner.Find(ctx, tool, nil)
	if err == nil && policy.AnyMatches(s.expose.now().Hidden, &e.Tool) {
		return nil, rpcError(toolroom.Errorf(toolroom.CodeToolNotFound, "tool %q not found", tool))
	}
	x := &exchange{peer: req.peer, ctx: ctx, who: s.o.Identity(ctx), state: req.state, answers: req.answers, server: s}
	x.tasks = x.tasks && s.o.Worker != nil
	if x.takesRounds() {
		x.request = requestDigest("tools/call", req.name, req.arguments)
	}
	call := toolroom.Call{
		Tool:           tool,
		Arguments:      args,
		Identity:       x.who,
		Surface:        "mcp",
		Session:        req.session,
		Environment:    s.environment(ctx),
		IdempotencyKey: req.key,
		Meta:           req.meta,
		More:           req.more,
	}
	if err == nil && e.Tool.Task != "" && x.modern() && s.o.Worker != nil {
		switch {
		case x.tasks:
			return s.submit(x, e, call)
		case e.Tool.Task == toolroom.TaskRequired:
			return nil, missingTasks()
		}
	}
	return s.converse(x, func(ctx context.Context, a asker, live func() *exchange) (mcp.Result, error) {
		result := s.performTask(ctx, a, live, call)
		if job, err := s.waits(ctx, x, result); err != nil {
			return nil, err
		} else if job != nil {
			return created(job), nil
		}
		var told *schema.Schema
		if tool == req.name {
			result = s.withClientNames(result)
			if e != nil {
				told = s.told(e)
			}
		}
		return answer(result, x.version, told)
	})
}

// withClientNames names the nearest tools of a tool that is not there as clients list them.
func (s *Server) withClientNames(r *toolroom.Result) *toolroom.Result {
	if r.Error == nil || r.Error.Code != toolroom.CodeToolNotFound {
		return r
	}
	var names []string
	for _, id := range stringsOf(r.Error.Details["nearest"]) {
		if e, err := s.o.Runner.Catalog.Resolve(id, nil); err == nil {
			names = append(names, e.ModelName)
		}
	}
	if len(names) == 0 {
		return r
	}
	named, failed := *r, *r.Error
	failed.Hint, failed.Details = "did you mean "+strings.Join(names, ", ")+"?", map[string]any{"nearest": names}
	named.Error = &failed
	return &named
}

// stringsOf returns a list of strings, which a redacted error has as a list of any.
func stringsOf(list any) []string {
	if texts, ok := list.([]string); ok {
		return texts
	}
	items, _ := list.([]any)
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i], _ = item.(string)
	}
	return texts
}

// Package mcpserver serves a room's tools over MCP, to clients of both protocol
// eras: at one HTTP endpoint and on stdio. It turns requests into calls and
// results into answers; everything between is the runner's.
package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// Options are the parts of a Server. Runner is required.
type Options struct {
	Runner    *run.Runner
	Artifacts *artifact.Store
	Desk      *approval.Desk
	// Library holds the resources and prompts; nil is an empty one.
	Library *library.Library
	Expose  Exposure
	// Worker runs calls that are tasks; without it there are none.
	Worker *run.Worker
	// StateKey seals what clients carry between the rounds of a call, in
	// StateKeySize bytes; servers that answer for one another share it. Empty is
	// a key of this server's own.
	StateKey []byte
	// Replica names this server among those that clients may reach under the same
	// address, and Neighbour hands requests on to another one, nil where there is
	// none of this name. Empty and nil stand alone.
	Replica   string
	Neighbour func(replica string) http.Handler
	// PollAfter closes the stream of a call that has run for so long and has the
	// client come back for the rest (SEP-1699, clients of 2025-11-25): for
	// networks that cut long answers. Zero never does.
	PollAfter time.Duration
	// Ready is waited for before the first list, so that a client that comes
	// at once does not see a room that is still filling. It may be nil.
	Ready func(context.Context)
	// Identity is who calls; nil means the local operator.
	Identity func(context.Context) toolroom.Identity
	// Scopes says what a caller's token does not reach; the zero value, that
	// nothing is out of reach.
	Scopes  Scopes
	Version string
	Log     *slog.Logger
}

// Exposure says how tools are shown to clients.
type Exposure struct {
	// Search shows search_tools, describe_tools, call_tool and read_result.
	Search bool
	// Code shows search_tools, describe_tools, execute_code and read_result.
	Code bool
	// PerSource shows a search tool for each namespace beside the others.
	PerSource bool
	// Direct selects the tools that are shown as they are; NotDirect takes some
	// of them out again. What is not shown can still be found and called.
	Direct, NotDirect []policy.Pattern
	// Hidden selects tools that clients of this surface neither see nor find.
	Hidden []policy.Pattern
	// Plain shows all tools under their bare names where these are unique.
	Plain bool
}

// Server is an MCP server. It serves any number of clients at once.
type Server struct {
	o        Options
	server   *mcp.Server
	self     json.RawMessage // what modern answers say of the server
	sessions sessions
	// dialogues are the calls that wait for answers of their clients.
	dialogues dialogues
	watched   watched
	// parked are the messages that the SDK has and we have read.
	parking parking
	// standIns are what the SDK sends for us that it has no words for.
	standIns standIns
	notices  notices
	visits   visits
	// wires has the *session of those without an id, by *mcp.ServerSession.
	wires sync.Map
	// replies are what older clients answer.
	replies     replies
	meta        map[string]metaTool
	definitions definitions
	// schemas are those of the search tools.
	schemas *schema.Cache
	cancels []func()
}

// New makes a server. Close it to stop its notifications. The error is of a
// StateKey of the wrong size.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Identity == nil {
		o.Identity = func(context.Context) toolroom.Identity { return toolroom.Identity{} }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) {}
	}
	if o.Library == nil {
		o.Library = &library.Library{}
	}
	sealer, err := newSealer(o.StateKey)
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, sessions: newSessions(), standIns: newStandIns(), visits: newVisits(), schemas: schema.NewCache(0, schema.Limits{}),
		dialogues: dialogues{sealer: sealer, replica: o.Replica, open: map[string]*dialogue{}},
	}
	s.meta = s.metaTools()
	capabilities := &mcp.ServerCapabilities{
		Tools:       &mcp.ToolCapabilities{ListChanged: true},
		Prompts:     &mcp.PromptCapabilities{ListChanged: true},
		Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		Completions: &mcp.CompletionCapabilities{},
		//lint:ignore SA1019 clients from before 2026-07-28 know no other way
		Logging: &mcp.LoggingCapabilities{},
	}
	if o.Worker != nil {
		capabilities.AddExtension(tasksExtension, nil)
	}
	capabilities.AddExtension(skillsExtension, nil)
	self := &mcp.Implementation{Name: "toolroom", Title: "Toolroom", Version: o.Version}
	if s.self, err = json.Marshal(self); err != nil {
		return nil, err
	}
	s.server = mcp.NewServer(self, &mcp.ServerOptions{
		GetSessionID:       s.sessionID,
		Instructions:       s.instructions(),
		Capabilities:       capabilities,
		SubscribeHandler:   s.subscribe,
		UnsubscribeHandler: s.unsubscribe,
		SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			// What a client sees depends on who it is.
			c.CacheScope = "private"
			c.TTLMs = listTTL
		},
	})
	if o.Worker != nil {
		if err := s.addTaskMethods(); err != nil {
			return nil, err
		}
	}
	if err := s.addSkillMethods(); err != nil {
		return nil, err
	}
	s.openDoors()
	s.server.AddReceivingMiddleware(s.failing, s.lead)
	s.server.AddSendingMiddleware(s.exactly)
	return s, nil
}

// Close stops the notifications of changes.
func (s *Server) Close() {
	for _, cancel := range s.cancels {
		cancel()
	}
}

// failing is the middleware that has errors say all that who they are from has said.
func (s *Server) failing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			return nil, s.standIns.failure(err)
		}
		return result, nil
	}
}

// lead is the middleware that answers from the catalog and the library. The SDK
// keeps what is of the protocol alone: versions, sessions, subscriptions.
func (s *Server) lead(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if session, ok := req.GetSession().(*mcp.ServerSession); ok && method == "notifications/initialized" {
			s.sessions.begin(session)
		}
		switch req := req.(type) {
		case *mcp.ListToolsRequest:
			return s.list(ctx, next, method, req)
		case *mcp.CallToolRequest:
			return s.callOf(ctx, req)
		case *mcp.ListResourcesRequest:
			return s.listResources(ctx, next, method, req)
		case *mcp.ListResourceTemplatesRequest:
			return s.listTemplates(ctx, next, method, req)
		case *mcp.ReadResourceRequest:
			return s.readResource(ctx, req)
		case *mcp.ListPromptsRequest:
			return s.listPrompts(ctx, next, method, req)
		case *mcp.GetPromptRequest:
			return s.getPrompt(ctx, req)
		case *mcp.CompleteRequest:
			return s.complete(ctx, req)
		case *mcp.ServerRequest[*skillParams]:
			return s.skills(ctx, method, req)
		case *mcp.ServerRequest[*taskParams]:
			return s.task(ctx, method, req)
		}
		return next(ctx, method, req)
	}
}

// list asks the SDK for its own list, which brings the fields that the era
// wants, and puts the tools in.
func (s *Server) list(ctx context.Context, next mcp.MethodHandler, method string, req *mcp.ListToolsRequest) (mcp.Result, error) {
	cursor := ""
	led := *req
	if req.Params != nil {
		params := *req.Params
		cursor, params.Cursor = params.Cursor, ""
		led.Params = &params
	}
	result, err := next(ctx, method, &led)
	if err != nil {
		return nil, err
	}
	s.o.Ready(ctx)
	tools, more, err := s.page(ctx, cursor, speaksVersion(req.Session), showsPages(req.ClientCapabilities()))
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return listing(req.Session, result, "tools", tools, more)
}

// page is a page of the list as JSON, and the cursor of the next. Tools that are
// for pages alone are left out where none are shown.
func (s *Server) page(ctx context.Context, cursor, version string, pages bool) (json.RawMessage, string, error) {
	defined := s.definitions.now(s.o.Runner.Catalog.Version())
	who := s.o.Identity(ctx)
	allowed := s.visible(who)
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: cursor,
		// Many clients read only the first page.
		Limit:   catalog.MaxPage,
		Visible: func(e *catalog.Entry) bool { return s.shownDirectly(e) && allowed(e) && (pages || !pagesOnly(e)) },
	})
	if err != nil {
		return nil, "", err
	}
	var own []*mcp.Tool
	if cursor == "" {
		for _, name := range s.metaToolsShown() {
			d := s.meta[name].definition
			if s.o.Expose.Code {
				d = shortly(d)
			}
			own = append(own, d)
		}
		own = append(own, s.sourceSearches(who)...)
	}
	list, err := defined.list(own, page.Entries, version, s.shownName)
	return list, page.Next, err
}

// visible tells what a caller may find here: what policy lets it call, without
// what this surface hides.
func (s *Server) visible(who toolroom.Identity) func(*catalog.Entry) bool {
	allowed := s.o.Runner.Visible(who)
	return func(e *catalog.Entry) bool {
		return !policy.AnyMatches(s.o.Expose.Hidden, &e.Tool) && allowed(e)
	}
}

func (s *Server) shownDirectly(e *catalog.Entry) bool {
	return policy.AnyMatches(s.o.Expose.Direct, &e.Tool) && !policy.AnyMatches(s.o.Expose.NotDirect, &e.Tool)
}

// shownName is the name of a tool here. One of this surface's own tools keeps
// its name; a tool that has it too is shown with its namespace.
func (s *Server) shownName(e *catalog.Entry) string {
	name := s.o.Runner.Catalog.ShownName(e, s.o.Expose.Plain)
	if slices.Contains(s.metaToolsShown(), name) {
		return e.ModelName
	}
	return name
}

// pollRetry is when a client should come back for the rest of a closed stream.
const pollRetry = time.Second

// pollAfter closes the stream of a request that takes long, where the client
// knows to come back. stop is called when the request has ended.
func (s *Server) pollAfter(req *mcp.CallToolRequest) (stop func() bool) {
	extra := req.Extra
	if extra == nil || extra.CloseSSEStream == nil || !s.polls(speaksVersion(req.Session)) {
		return func() bool { return false }
	}
	return time.AfterFunc(s.o.PollAfter, func() {
		extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: pollRetry})
	}).Stop
}

// polls reports whether the stream of a client's call may be closed before the
// call ends. Each of its calls gets a stream then, from its start.
func (s *Server) polls(version string) bool { return s.o.PollAfter > 0 && version == lastLegacy }

// rpcError is an error as the protocol has it: the one of the server behind the
// tool where there is one, else ours.
func rpcError(e *toolroom.Error) error {
	if code, ok := e.Details[source.DetailRPCCode].(int64); ok {
		message, _ := e.Details[source.DetailRPCMessage].(string)
		data, _ := e.Details[source.DetailRPCData].(json.RawMessage)
		failure := &jsonrpc.Error{Code: code, Message: message, Data: data}
		if sent, ok := e.Details[source.DetailRPCSent].(json.RawMessage); ok {
			return &sentFailure{failure, sent}
		}
		return failure
	}
	if missing, ok := e.Details[source.DetailCapabilities]; ok {
		data, err := json.Marshal(map[string]any{source.DetailCapabilities: missing})
		if err == nil {
			return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: e.Message, Data: data}
		}
	}
	code := e.Code.Info().RPC
	if code == 0 {
		code = jsonrpc.CodeInternalError
	}
	message := e.Message
	if e.Hint != "" {
		message += " (" + e.Hint + ")"
	}
	data, err := json.Marshal(e)
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: int64(code), Message: message, Data: data}
}

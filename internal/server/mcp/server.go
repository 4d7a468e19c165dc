// Package mcpserver serves a room's tools over MCP, at one HTTP endpoint and on stdio.
// It serves clients of revision 2026-07-28 and of earlier revisions. It turns requests
// into calls and results into responses; the runner does everything in between.
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
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schema"
)

// Options are the parts of a Server. Runner is required.
type Options struct {
	Runner    *run.Runner
	Artifacts *artifact.Store
	Approvals *approval.Service
	// Library holds the resources and prompts; nil means none.
	Library *library.Library
	Expose  Exposure
	// Worker runs calls that are tasks. If nil, clients cannot start tasks.
	Worker *run.Worker
	// StateKey encrypts the request state that clients carry between the rounds of
	// a multi-round request. It has StateKeySize bytes. Servers that forward
	// requests to each other share it. If empty, the server makes a key of its own.
	StateKey []byte
	// Replica is the name of this server among those that clients reach at the same
	// address. Neighbour returns a handler that forwards requests to another one,
	// or nil if there is none of this name. A server that stands alone has neither.
	Replica   string
	Neighbour func(replica string) http.Handler
	// PollAfter is the time after which the server closes the stream of a running
	// call, so that the client reconnects for the rest (SEP-1699, clients of
	// 2025-11-25). It is for networks that cut long responses. Zero means never.
	PollAfter time.Duration
	// ApprovalWait returns how long a call waits for a person whom its client cannot ask;
	// nil means the runner's limit. Then the answer names the question and Page, the address
	// of the page where a person can answer; empty means that there is none.
	ApprovalWait func() time.Duration
	Page         string
	// ProgressPeriod is how long a client that wants progress hears nothing of a running
	// call (10 s).
	ProgressPeriod time.Duration
	// Ready, if not nil, is called before the first list and may block, so that an
	// early client does not get the list of a room that is still starting.
	Ready func(context.Context)
	// Identity returns the caller; nil means the local operator.
	Identity func(context.Context) toolroom.Identity
	// Environment returns the environment that a client has chosen; nil means none.
	Environment func(context.Context) string
	// Scopes finds the scopes that a caller's token lacks. The zero value finds
	// none.
	Scopes  Scopes
	Version string
	Log     *slog.Logger
}

// Server is an MCP server. It is safe for concurrent use.
type Server struct {
	o        Options
	server   *mcp.Server
	self     json.RawMessage // what modern answers say of the server
	sessions sessions
	// rounds are the calls that wait for answers of their clients.
	rounds  roundCalls
	watched watched
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
	expose      exposures
	// schemas are those of the search tools.
	schemas *schema.Cache
	cancels []func()
}

// New returns a Server. Call Close to stop its notifications. New returns an error if
// StateKey has the wrong size.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Identity == nil {
		o.Identity = func(context.Context) toolroom.Identity { return toolroom.Identity{} }
	}
	o.Identity = byRequest(o.Identity)
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
		rounds: roundCalls{sealer: sealer, replica: o.Replica, open: map[string]*roundCall{}},
	}
	s.expose.set(o.Expose)
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
	s.server.AddReceivingMiddleware(identified, s.failing, s.lead)
	s.server.AddSendingMiddleware(s.exactly)
	return s, nil
}

// Close stops notifications of changes.
func (s *Server) Close() {
	for _, cancel := range s.cancels {
		cancel()
	}
}

// failing is the middleware that has errors say all that who they are from has said.
func (s *Server) failing(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := s.guard(method, func() (mcp.Result, error) { return next(ctx, method, req) })
		if err != nil {
			return nil, s.standIns.failure(err)
		}
		return result, nil
	}
}

// guard runs what serves a request. A panic there is an internal error for its
// client: most requests run in goroutines where it would end the process.
func (s *Server) guard(what string, serve func() (mcp.Result, error)) (result mcp.Result, err error) {
	served := false
	panics.Log(s.o.Log, "serving "+what, func() {
		result, err = serve()
		served = true
	})
	if !served {
		return nil, rpcError(toolroom.Errorf(toolroom.CodeInternal, "%s failed inside Toolroom", what).
			WithHint("this is a bug: report it with the stack in the log"))
	}
	return result, err
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
	tools, more, err := s.page(ctx, cursor, showsPages(req.ClientCapabilities()))
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return listing(req.Session, result, "tools", tools, more)
}

// page is a page of the list as JSON, and the cursor of the next. Tools that are
// for pages alone are left out where none are shown.
func (s *Server) page(ctx context.Context, cursor string, pages bool) (json.RawMessage, string, error) {
	who := s.o.Identity(ctx)
	expose := s.exposed(who)
	defined := s.defined()
	allowed := s.visible(who)
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: cursor,
		// Many clients read only the first page.
		Limit:   catalog.MaxPage,
		Visible: func(e *catalog.Entry) bool { return expose.lists(e) && allowed(e) && (pages || !pagesOnly(e)) },
	})
	if err != nil {
		return nil, "", err
	}
	var own []*mcp.Tool
	if cursor == "" {
		own = s.ownTools(expose)
		own = append(own, s.sourceSearches(who)...)
	}
	list, err := defined.list(own, page.Entries, s.shownName)
	return list, page.Next, err
}

// visible tells what a caller may find here: what policy lets it call, without
// what this surface hides.
func (s *Server) visible(who toolroom.Identity) func(*catalog.Entry) bool {
	allowed := s.o.Runner.Visible(who)
	return func(e *catalog.Entry) bool {
		return !policy.AnyMatches(s.expose.now().Hidden, &e.Tool) && allowed(e)
	}
}

// shownName is the name of a tool here. One of this surface's own tools keeps
// its name; a tool that has it too is shown with its namespace.
func (s *Server) shownName(e *catalog.Entry) string {
	expose := s.expose.now()
	name := s.o.Runner.Catalog.ShownName(e, expose.Plain)
	if slices.Contains(expose.ownNames(), name) {
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
	if rpc := e.RPC; rpc != nil {
		failure := &jsonrpc.Error{Code: rpc.Code, Message: rpc.Message, Data: rpc.Data}
		if rpc.Sent != nil {
			return &sentFailure{failure, rpc.Sent}
		}
		return failure
	}
	if e.Missing != nil {
		data, err := json.Marshal(map[string]any{"requiredCapabilities": e.Missing})
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

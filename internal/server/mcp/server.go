// Package mcpserver serves a room's tools over MCP, to clients of both protocol
// eras: at one HTTP endpoint and on stdio. It turns requests into calls and
// results into answers; everything between is the runner's.
package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schema"
)

// Options are the parts of a Server. Runner is required.
type Options struct {
	Runner    *run.Runner
	Artifacts *artifact.Store
	Desk      *approval.Desk
	Expose    Exposure
	// Ready is waited for before the first list, so that a client that comes
	// at once does not see a room that is still filling. It may be nil.
	Ready func(context.Context)
	// Identity is who calls; nil means the local operator.
	Identity func(context.Context) toolroom.Identity
	Version  string
	Log      *slog.Logger
}

// Exposure says how tools are shown to clients.
type Exposure struct {
	// Search shows search_tools, describe_tools, call_tool and read_result.
	Search bool
	// Direct selects the tools that are shown as they are; NotDirect takes some
	// of them out again. What is not shown can still be found and called.
	Direct, NotDirect []policy.Pattern
	// Hidden selects tools that clients of this surface neither see nor find.
	Hidden []policy.Pattern
}

// Server is an MCP server. It serves any number of clients at once.
type Server struct {
	o      Options
	server *mcp.Server
	owners sessionOwners
	meta   map[string]metaTool
	// schemas are those of the search tools.
	schemas *schema.Cache
	cancel  func()
}

// door is the one tool that the SDK knows of: calls of any name are led
// through it, and lists are filled from the catalog.
const door = "toolroom"

// New makes a server. Close it to stop its notifications.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Identity == nil {
		o.Identity = func(context.Context) toolroom.Identity { return toolroom.Identity{} }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) {}
	}
	s := &Server{o: o, owners: newSessionOwners(), schemas: schema.NewCache(0, schema.Limits{})}
	s.meta = s.metaTools()
	s.server = mcp.NewServer(&mcp.Implementation{Name: "toolroom", Title: "Toolroom", Version: o.Version}, &mcp.ServerOptions{
		Instructions: s.instructions(),
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{ListChanged: true},
			//lint:ignore SA1019 clients from before 2026-07-28 know no other way
			Logging: &mcp.LoggingCapabilities{},
		},
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			// What a client sees depends on who it is.
			c.CacheScope = "private"
		},
	})
	s.addDoor()
	s.server.AddReceivingMiddleware(s.lead)
	// Adding the door again is what makes the SDK tell its clients, of either
	// era, that the list has changed.
	s.cancel = o.Runner.Catalog.Subscribe(func([]catalog.Change) { s.addDoor() })
	return s
}

// Close stops the notifications of changed tools.
func (s *Server) Close() { s.cancel() }

func (s *Server) addDoor() {
	s.server.AddTool(&mcp.Tool{Name: door, InputSchema: json.RawMessage(`{"type":"object"}`)}, s.call)
}

// HTTP is the endpoint for clients of both eras. Requests of 2026-07-28 stand
// alone; older clients have sessions.
func (s *Server) HTTP() http.Handler {
	get := func(*http.Request) *mcp.Server { return s.server }
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: maxBody,
	})
	legacy := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
		SessionTimeout: sessionTimeout, MaxRequestBodyBytes: maxBody,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isModern, err := speaksModern(w, r)
		switch {
		case err != nil:
			status := http.StatusBadRequest
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "the request body cannot be read: "+err.Error(), status)
		case isModern:
			modern.ServeHTTP(w, r)
		default:
			s.inSession(legacy, w, r)
		}
	})
}

// Stdio serves one client on a pair of streams until it leaves or ctx ends.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	return s.server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: maxBody})
}

// lead is the middleware that fills lists from the catalog and brings calls to
// the door.
func (s *Server) lead(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch req := req.(type) {
		case *mcp.ListToolsRequest:
			return s.list(ctx, next, method, req)
		case *mcp.CallToolRequest:
			params := *req.Params
			params.Name = door
			led := *req
			led.Params = &params
			return next(context.WithValue(ctx, nameKey{}, req.Params.Name), method, &led)
		}
		return next(ctx, method, req)
	}
}

type nameKey struct{}

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
	list, ok := result.(*mcp.ListToolsResult)
	if err != nil || !ok {
		return result, err
	}
	s.o.Ready(ctx)
	list.Tools, list.NextCursor, err = s.page(ctx, cursor, speaksVersion(req.Session))
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return list, nil
}

func (s *Server) page(ctx context.Context, cursor, version string) ([]*mcp.Tool, string, error) {
	who := s.o.Identity(ctx)
	allowed := s.visible(who)
	page, err := s.o.Runner.Catalog.List(catalog.ListOptions{
		Cursor: cursor,
		// Many clients read only the first page.
		Limit:   catalog.MaxPage,
		Visible: func(e *catalog.Entry) bool { return s.shownDirectly(e) && allowed(e) },
	})
	if err != nil {
		return nil, "", err
	}
	tools := make([]*mcp.Tool, 0, len(page.Entries)+len(s.meta))
	if cursor == "" {
		for _, name := range s.metaToolsShown() {
			tools = append(tools, s.meta[name].definition)
		}
	}
	for _, e := range page.Entries {
		tools = append(tools, definition(e, version))
	}
	return tools, page.Next, nil
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

// call runs a tool, or one of the search tools.
func (s *Server) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, _ := ctx.Value(nameKey{}).(string)
	if tool, ok := s.meta[name]; ok && slices.Contains(s.metaToolsShown(), name) {
		return tool.handle(ctx, req)
	}
	return s.run(ctx, req, name, req.Params.Arguments)
}

// run makes a request a call and the result an answer. When a person must
// approve and the client can ask one, the answer is a question.
func (s *Server) run(ctx context.Context, req *mcp.CallToolRequest, tool string, args json.RawMessage) (*mcp.CallToolResult, error) {
	who := s.o.Identity(ctx)
	answered, err := s.takeAnswer(ctx, req, who)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	if e, err := s.o.Runner.Catalog.Resolve(tool, nil); err == nil && policy.AnyMatches(s.o.Expose.Hidden, &e.Tool) {
		return nil, rpcError(toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %q", tool))
	}
	canAsk := elicits(req.Session)
	result := s.o.Runner.Run(s.withNotifications(ctx, req), toolroom.Call{
		Tool:           tool,
		Arguments:      args,
		Identity:       who,
		Surface:        "mcp",
		Session:        req.Session.ID(),
		IdempotencyKey: idempotencyKey(req),
		NoWait:         canAsk,
		Approval:       answered,
	})
	if canAsk && toolroom.CodeOf(result.Err()) == toolroom.CodeApprovalRequired {
		return s.question(ctx, result)
	}
	return answer(result, speaksVersion(req.Session))
}

// metaKey is where a client may put an idempotency key: the 2026-07-28 protocol
// has no other safe way to repeat a call.
const metaKey = "toolroom/idempotencyKey"

func idempotencyKey(req *mcp.CallToolRequest) string {
	key, _ := req.Params.GetMeta()[metaKey].(string)
	return key
}

func rpcError(e *toolroom.Error) error {
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

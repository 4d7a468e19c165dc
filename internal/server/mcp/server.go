// Package mcp serves a room's tools over MCP, at one HTTP endpoint and on stdio. It serves
// clients of revision 2026-07-28 and of earlier revisions. It turns requests into calls and
// results into responses; the public package mcp implements the protocol, and the runner
// does everything in between.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/mcp"
)

// Options are the parts of a Server. Runner is required.
type Options struct {
	Runner    *run.Runner
	Artifacts *artifact.Store
	Approvals *approval.Service
	// Library holds the resources and prompts; nil means none.
	Library *catalog.Library
	Expose  Exposure
	// Worker runs calls that are tasks. If nil, clients cannot start tasks.
	Worker *run.Worker
	// StateKey encrypts the request state that clients carry between the rounds of
	// a multi-round request. It has StateKeySize bytes. Servers that forward
	// requests to each other share it. If empty, the server makes a key of its own.
	StateKey []byte
	// Replica is the name of this server among those that clients reach at the same
	// address. ForwardTo returns a handler that forwards requests to the server of a
	// name, or nil if there is none. Both are unset if there is only one server.
	Replica   string
	ForwardTo func(replica string) http.Handler
	// PollAfter is the time after which the server closes the stream of a running
	// call, so that the client reconnects for the rest (SEP-1699, clients of
	// 2025-11-25). It is for networks that cut long responses. Zero means never.
	PollAfter time.Duration
	// ApprovalWait returns the time for which a call waits for a person whom its client cannot
	// ask; nil means the runner's limit. After it the result names the approval and Page, the
	// address of the page where a person can answer; empty means that there is none.
	ApprovalWait func() time.Duration
	Page         string
	// ProgressPeriod is the longest time for which a client that wants progress receives
	// nothing about a running call; zero means 10 s.
	ProgressPeriod time.Duration
	// TokenPeriod is how often the server checks the token of a client that listens to
	// notifications; zero means 15 s.
	TokenPeriod time.Duration
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
	o    Options
	wire *mcp.Server
	// rounds are the calls that wait for answers from their clients.
	rounds       roundCalls
	watches      watches
	queue        notificationQueue
	urlQuestions urlQuestions
	meta         map[string]metaTool
	definitions  definitionCache
	expose       exposures
	// schemas are the compiled input schemas of meta.
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
	if o.Ready == nil {
		o.Ready = func(context.Context) {}
	}
	if o.Library == nil {
		o.Library = &catalog.Library{}
	}
	sealer, err := newSealer(o.StateKey)
	if err != nil {
		return nil, err
	}
	s := &Server{
		o: o, urlQuestions: newURLQuestions(), schemas: schema.NewCache(0, schema.Limits{}),
		rounds: roundCalls{sealer: sealer, replica: o.Replica, open: map[string]*roundCall{}},
	}
	s.expose.set(o.Expose)
	s.meta = s.metaTools()
	s.wire, err = mcp.NewServer(mcp.ServerOptions{
		Name: "toolroom", Title: "Toolroom", Version: o.Version,
		Instructions: s.instructions(),
		Capabilities: s.capabilities(),
		DiscoverTTL:  listTTL * time.Millisecond,
		Handle:       s.handle, Complete: true,
		Prepare: s.prepare, HeaderParams: s.headerParams, Intercept: s.intercept,
		Subscribe: s.subscribe,
		Owner:     func(ctx context.Context) string { return o.Identity(ctx).Key() },
		MayUseSession: func(ctx context.Context, session *mcp.ServerSession) bool {
			return identity.Reaches(o.Identity(ctx), o.Identity(session.Context()))
		},
		SessionID: s.newSessionID,
		// Most calls end soon and send nothing before their result.
		Streams: func(method, version string) bool { return method != "tools/call" || s.closesStreamEarly(version) },
		Log:     o.Log, MaxMessage: maxBody,
	})
	if err != nil {
		return nil, err
	}
	s.cancels = s.watchChanges()
	return s, nil
}

func (s *Server) capabilities() json.RawMessage {
	tasks := ""
	if s.o.Worker != nil {
		tasks = `,"` + tasksExtension + `":{}`
	}
	return json.RawMessage(`{"extensions":{"` + skillsExtension + `":{}` + tasks + `},"completions":{},"logging":{},` +
		`"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`)
}

// HTTP returns the handler of the endpoint for clients of all revisions. The middleware of
// package auth must wrap it: it checks Host and Origin, and knows when a token makes a
// foreign Host harmless.
func (s *Server) HTTP() http.Handler { return s.untilTokenEnds(s.wire.HTTP()) }

// SSE returns the handler of the endpoint for clients that support only 2024-11-05: they read
// one stream and post their messages to an address that it names.
func (s *Server) SSE() http.Handler { return s.untilTokenEnds(s.wire.SSE()) }

// defaultTokenPeriod is the default of Options.TokenPeriod.
const defaultTokenPeriod = 15 * time.Second

// untilTokenEnds returns a handler that ends a stream of notifications once the token of its
// caller was revoked or has expired. Other responses end with their calls.
func (s *Server) untilTokenEnds(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := s.o.Identity(r.Context())
		// The header has been compared with the body before the request is served.
		if who.Token == "" || r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		var watch sync.WaitGroup
		watch.Go(func() {
			tick := time.NewTicker(cmp.Or(s.o.TokenPeriod, defaultTokenPeriod))
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
				// If the token cannot be checked now, it counts as valid.
				if toolroom.CodeOf(s.o.Runner.CheckToken(ctx, who)) == toolroom.CodeUnauthenticated {
					cancel()
				}
			}
		})
		defer watch.Wait()
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Stdio serves one client on a pair of streams until the client disconnects or ctx ends, and
// closes the streams.
func (s *Server) Stdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	defer out.Close()
	return s.wire.Stdio(ctx, in, out)
}

// Close ends all sessions and all suspended calls, and stops notifications of changes.
func (s *Server) Close() {
	for _, cancel := range s.cancels {
		cancel()
	}
	s.wire.Close()
	s.rounds.close()
}

// methodHandler answers requests of one method.
type methodHandler func(s *Server, r *request) (*result, error)

// methods maps the methods that this package answers to their handlers. Package mcp answers
// the others.
var methods = map[string]methodHandler{
	"tools/list":               (*Server).listTools,
	"tools/call":               (*Server).call,
	"resources/list":           (*Server).listResources,
	"resources/templates/list": (*Server).listTemplates,
	"resources/read":           (*Server).readResource,
	"prompts/list":             (*Server).listPrompts,
	"prompts/get":              (*Server).getPrompt,
	"completion/complete":      (*Server).complete,
	"skills/list":              (*Server).listSkills,
	"skills/get":               (*Server).getSkill,
	"tasks/get":                (*Server).getTask,
	"tasks/update":             (*Server).updateTask,
	"tasks/cancel":             (*Server).cancelTask,
}

// handle answers a request.
func (s *Server) handle(ctx context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
	answer, ok := methods[r.Method]
	if !ok {
		return nil, mcp.MethodNotFound(r.Method)
	}
	var text []byte
	err := s.recoverPanic(r.Method, func() error {
		out, err := answer(s, s.newRequest(ctx, r))
		if err != nil {
			return err
		}
		text, err = out.forVersion(r.Version).append(make([]byte, 0, 1024), s.wire.Info())
		return err
	})
	return text, err
}

// recoverPanic calls serve and returns an internal error if it panics. Parts of a request run
// in goroutines, where a panic would end the process.
func (s *Server) recoverPanic(what string, serve func() error) (err error) {
	served := false
	panics.Log(s.o.Log, "serving "+what, func() {
		err = serve()
		served = true
	})
	if !served {
		return rpcError(toolroom.Errorf(toolroom.CodeInternal, "%s failed inside Toolroom", what).
			WithHint("this is a bug: report it with the stack in the log"))
	}
	return err
}

// listTTL is the time, in milliseconds, for which a client may cache a list if it has not
// subscribed to its changes.
const listTTL = 10_000

// watchChanges notifies clients of changes of the catalog and the library until the functions
// that it returns are called.
func (s *Server) watchChanges() []func() {
	return []func(){
		s.o.Runner.Catalog.Subscribe(func([]toolroom.Change) { s.wire.ListChanged("tools") }),
		s.o.Library.Changes.Add(func(c catalog.Change) {
			if c.Resources {
				s.wire.ListChanged("resources")
			}
			if c.Prompts {
				s.wire.ListChanged("prompts")
			}
			if c.Source {
				go panics.Log(s.o.Log, "watching resources anew", s.resubscribeAll)
			}
		}),
		s.o.Library.Updates.Add(s.resourceUpdated),
		s.o.Library.Notifications.Add(s.notificationReceived),
	}
}

// rpcError converts an error to a protocol error. If an MCP server sent the error, its own
// error is returned unchanged.
func rpcError(e *toolroom.Error) error {
	if rpc := e.RPC; rpc != nil {
		return &mcp.Error{Code: rpc.Code, Message: rpc.Message, Data: rpc.Data, Sent: rpc.Sent}
	}
	if e.Missing != nil {
		data, err := json.Marshal(map[string]any{"requiredCapabilities": e.Missing})
		if err == nil {
			return &mcp.Error{Code: mcp.CodeMissingCapability, Message: e.Message, Data: data}
		}
	}
	code := e.Code.Info().RPC
	code = cmp.Or(code, mcp.CodeInternal)
	message := e.Message
	if e.Hint != "" {
		message += " (" + e.Hint + ")"
	}
	data, err := json.Marshal(e)
	if err != nil {
		data = nil
	}
	return &mcp.Error{Code: int64(code), Message: message, Data: data}
}

// invalidParams returns a protocol error with code invalid params.
func invalidParams(message string) error {
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: message}
}

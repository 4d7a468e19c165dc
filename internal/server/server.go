// Package server puts a room on the network: MCP at /mcp, the API at /api/v1,
// a page at /, health and metrics; or MCP alone on stdin and stdout.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval/hook"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/server/answer"
	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/internal/server/auth"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/internal/server/replica"
	"github.com/toolroom/toolroom/internal/token"
	"github.com/toolroom/toolroom/room"
)

// Options say how to serve.
type Options struct {
	// Listen is the address; empty is the config's.
	Listen string
	// Client is who the one client of ServeStdio is.
	Client toolroom.Identity
	// ConfigFile is watched; a change is put in force. Empty watches nothing.
	ConfigFile string
	// Started is called with the address once requests are taken; may be nil.
	Started func(net.Addr)
	Version string
	Log     *slog.Logger
}

const (
	// firstListWait is how long the first list of a client waits for sources
	// that are still starting.
	firstListWait = 10 * time.Second
	// drainWait is how long requests may finish after the end was asked for.
	drainWait = 10 * time.Second
)

// Serve serves over HTTP until ctx ends; calls in flight may finish then.
func Serve(ctx context.Context, r *room.Room, o Options) error {
	c := r.Config()
	if o.Listen == "" {
		o.Listen = c.Server.Listen
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return listenError(o.Listen, err)
	}
	self, err := openReplica(r)
	if err != nil {
		listener.Close()
		return err
	}
	defer self.Close()
	handler, closeHandler, err := newHandler(r, c, o, self)
	if err != nil {
		listener.Close()
		return err
	}
	defer closeHandler()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.Start(ctx)
	watchConfig(ctx, r, o)
	go watchRules(ctx, r, o.Log)
	srv := auth.Server(o.Listen, (&ballast{}).under(handler))
	// The end of ctx ends no call: requests have a time of their own.
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	srv.BaseContext = func(net.Listener) context.Context { return requests }
	neighbours := auth.Server("", nil)
	neighbours.BaseContext = srv.BaseContext
	self.Start(neighbours, srv.Handler, func(err error) {
		if o.Log != nil {
			o.Log.Warn("other servers of this home cannot hand requests on to this one", "error", err)
		}
	})
	if o.Started != nil {
		o.Started(listener.Addr())
	}
	served := make(chan error, 1)
	go func() { served <- serveOn(srv, listener, c.Server.TLS) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), drainWait)
	defer stop()
	go func() {
		r.Quiet(drain)
		endRequests() // streams that only listen
	}()
	if err := srv.Shutdown(drain); err != nil {
		srv.Close()
	}
	<-served
	return nil
}

// openReplica makes a server known to the others of its home.
func openReplica(r *room.Room) (*replica.Replica, error) {
	key, err := r.StateKey()
	if err != nil {
		return nil, err
	}
	return replica.Open(r.Home(), key)
}

func serveOn(srv *http.Server, l net.Listener, tls config.TLS) error {
	var err error
	if tls.Cert != "" {
		err = srv.ServeTLS(l, tls.Cert, tls.Key)
	} else {
		err = srv.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ServeStdio serves MCP to one client on a pair of streams.
func ServeStdio(ctx context.Context, r *room.Room, in io.ReadCloser, out io.WriteCloser, o Options) error {
	s, err := newMCP(r, r.Config(), o, func(context.Context) toolroom.Identity { return o.Client }, nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	r.Start(ctx)
	watchConfig(ctx, r, o)
	go watchRules(ctx, r, o.Log)
	return s.Stdio(ctx, in, out)
}

func newHandler(r *room.Room, c *config.Config, o Options, self *replica.Replica) (http.Handler, func(), error) {
	resource, err := newResource(c.Server)
	if err != nil {
		return nil, nil, err
	}
	mcp, err := newMCP(r, c, o, auth.Identity, resource, self)
	if err != nil {
		return nil, nil, err
	}
	parts := r.Parts()
	tokens := token.NewVerifier(parts.Tokens, nil)
	door := auth.Options{
		Verify:   tokens.Verify,
		Required: auth.Required(c.Server.Auth.Required),
		Origins:  c.Server.Origins,
		Listen:   o.Listen,
		MaxBody:  c.Server.MaxBody,
		Open:     api.OpenPaths(),
		Log:      o.Log,
	}
	if resource != nil {
		door.Verify, door.Challenge = resource.verify(tokens.Verify), resource.challenge
		door.Open = append(door.Open, resource.MetadataPaths()...)
		parts.Runner.Scopes = resource.needed
	}
	guard := auth.Middleware(door)
	sources := func() []api.Source {
		var out []api.Source
		for _, s := range r.Sources() {
			out = append(out, api.Source(s))
		}
		return out
	}
	metrics := api.NewMetrics(api.MetricsOptions{Desk: parts.Desk, Sources: sources, ReceiptQueue: parts.Recorder.Queued, WarmPools: warmPools(r)})
	parts.Runner.Receipts = metrics.Receipts(parts.Runner.Receipts)
	stopMetrics := metrics.Watch(parts.Runner.Bus)
	rest := api.New(api.Options{
		Runner: parts.Runner, Worker: parts.Worker, Desk: parts.Desk, Artifacts: parts.Artifacts, Sessions: parts.Sessions,
		Owner:    func(e *toolroom.Event) string { return e.Identity.Key() },
		Receipts: r, Sources: sources, Explain: r.Explain, Elevator: r, Metrics: metrics,
		Version: o.Version, Log: o.Log,
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.HTTP())
	if c.Server.MCP.SSE {
		mux.Handle("/sse", mcp.SSE())
	}
	mux.Handle("GET /{$}", page(o.Version))
	mux.Handle("/", rest)
	inner := guard(mux)
	if resource != nil {
		metadata := resource.Metadata(slices.Collect(maps.Keys(resource.scopes)))
		for _, path := range resource.MetadataPaths() {
			mux.Handle("GET "+path, metadata)
		}
		inner = guard(resource.guarded(mux))
	}
	outer := http.NewServeMux()
	outer.Handle("/", inner)
	// A card is for those who have not come yet.
	about, err := newCard(c.Server.URL, o.Version)
	if err != nil {
		return nil, nil, err
	}
	if about != nil {
		outer.Handle("GET "+cardPath, about)
		outer.Handle("OPTIONS "+cardPath, about)
	}
	// A signed link shows for itself who answers.
	outer.Handle(hook.AnswerPath, answer.New(parts.Desk, o.Log))
	return outer, func() { stopMetrics(); mcp.Close() }, nil
}

func warmPools(r *room.Room) func() []api.WarmPool {
	return func() []api.WarmPool {
		var out []api.WarmPool
		for _, p := range r.WarmPools() {
			out = append(out, api.WarmPool{
				Runtime: p.Runtime, Profile: p.Profile, Ready: p.Ready, Starting: p.Starting,
				Taken: p.Taken, Drained: p.Drained, Failures: p.Failures,
			})
		}
		return out
	}
}

func newMCP(r *room.Room, c *config.Config, o Options, who func(context.Context) toolroom.Identity, protected *resource, self *replica.Replica) (*mcpserver.Server, error) {
	expose, err := exposure(c.Expose)
	if err != nil {
		return nil, err
	}
	key, err := r.StateKey()
	if err != nil {
		return nil, err
	}
	parts := r.Parts()
	var scopes mcpserver.Scopes
	if protected != nil {
		scopes = mcpserver.Scopes{Lacking: protected.lacking, Refuse: protected.Refuse}
	}
	var name string
	var neighbour func(string) http.Handler
	if self != nil {
		name, neighbour = self.ID, self.Of
	}
	return mcpserver.New(mcpserver.Options{
		Replica: name, Neighbour: neighbour,
		Scopes: scopes, StateKey: key,
		Runner: parts.Runner, Artifacts: parts.Artifacts, Desk: parts.Desk, Library: parts.Library, Worker: parts.Worker,
		Expose: expose, Identity: who, Version: o.Version, Log: o.Log,
		PollAfter: c.Server.MCP.PollAfter,
		Ready: func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, firstListWait)
			defer cancel()
			// A source that fails is reported by its status, not here.
			_ = r.Load(ctx)
		},
	})
}

// CheckConfig reports what of a valid config this build cannot serve.
func CheckConfig(c *config.Config) error {
	_, err := exposure(c.Expose)
	return err
}

// exposure reads how tools are shown: as they are, or behind search, or both
// mixed by pattern.
func exposure(e config.Expose) (mcpserver.Exposure, error) {
	out := mcpserver.Exposure{Plain: e.Names == "plain", PerSource: e.PerSource}
	direct := e.Direct
	switch e.Mode {
	case "direct":
		direct = append([]string{"*"}, direct...)
		out.Search = len(e.Search) > 0
	case "search":
		out.Search = true
	case "code":
		out.Code = true
	}
	var err error
	if out.Direct, err = policy.ParsePatterns(direct); err != nil {
		return out, err
	}
	if out.NotDirect, err = policy.ParsePatterns(e.Search); err != nil {
		return out, err
	}
	out.Hidden, err = policy.ParsePatterns(e.Hidden)
	return out, err
}

func watchConfig(ctx context.Context, r *room.Room, o Options) {
	if o.ConfigFile == "" {
		return
	}
	go func() {
		err := config.Watch(ctx, o.ConfigFile, func(c *config.Config, err error) {
			if err == nil {
				err = r.Reload(c)
			}
			if err != nil {
				o.Log.Error("the changed config is not used; the one before stays in force", "error", err)
			}
		})
		if err != nil && ctx.Err() == nil {
			o.Log.Warn("the config is not watched for changes", "error", err)
		}
	}()
}

func listenError(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return toolroom.Errorf(toolroom.CodeInternal, "%s is in use: another Toolroom, or another program, listens there", addr).
			WithHint("stop it, or choose another address: toolroom serve --listen 127.0.0.1:7071")
	}
	return fmt.Errorf("listen on %s: %w", addr, err)
}

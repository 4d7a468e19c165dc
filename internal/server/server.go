// Package server serves a room over HTTP: MCP at /mcp, the API at /api/v1, a page at
// /, health and metrics. It can also serve MCP alone on stdin and stdout.
package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/internal/server/auth"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/internal/toolflow"
)

// Options configure Serve and ServeStdio.
type Options struct {
	// Listen is the address to listen on; empty means the address in the config.
	Listen string
	// Client is the identity of the client of ServeStdio.
	Client toolroom.Identity
	// Environment is the environment of ServeStdio's client; empty means prod.
	Environment string
	// ConfigFile is watched, and its changes are applied. If empty, no file is
	// watched.
	ConfigFile string
	// Verify, if not nil, must accept a changed config; see [app.Options]. Its answers depend
	// on the file Record.
	Verify config.Verify
	Record string
	// Wrote, if not nil, returns a function that is called after the API has edited a config file.
	Wrote func(file string) config.EditHook
	// Started, if not nil, is called with the address once the server accepts
	// requests; 127.0.0.1 stands for all addresses.
	Started func(net.Addr)
	// Listed, if not nil, is called once after the sources have listed their tools, with
	// what a client without a name sees, and then with what those of each tool set see.
	Listed  func([]Listing)
	Version string
	Log     *slog.Logger
	// Reloads, if not nil, is called with a function that reads ConfigFile again at once.
	Reloads func(func() (Reloaded, error))
	// Local, if not nil, is called with a handler for clients that the caller has found to
	// be the operator: all their requests are the operator's.
	Local func(http.Handler)

	page  string        // where a person opens the page; empty for none
	drain time.Duration // zero means drainWait
}

// Listing describes the tools that an MCP client sees.
type Listing = mcpserver.Listing

// environment returns the environment of a request.
func (o Options) environment(ctx context.Context) string {
	return cmp.Or(auth.Environment(ctx), o.Environment)
}

const (
	// firstListWait is how long a client's first list of tools waits for sources
	// that are still starting.
	firstListWait = 10 * time.Second
	// drainWait is how long running requests may take to finish at shutdown.
	drainWait = 10 * time.Second
	// answerWait is how long the calls that were then ended may take to say so.
	answerWait = 5 * time.Second
)

// Serve serves over HTTP until ctx ends. Running calls may finish then.
func Serve(ctx context.Context, r *app.App, o Options) error {
	c := r.Config()
	o.Listen = cmp.Or(o.Listen, c.Server.Listen)
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
	o.page = pageAddress(c.Server, listener.Addr())
	handler, mcp, closeHandler, err := newHandler(r, c, o, self)
	if err != nil {
		listener.Close()
		return err
	}
	defer closeHandler()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.Start(ctx)
	warnPlainSecrets(o.Log, c)
	watchConfig(ctx, r, mcp, o)
	if o.Reloads != nil {
		o.Reloads(func() (Reloaded, error) { return reloadNow(r, mcp, o) })
	}
	go watchRules(ctx, r, o.Log)
	srv := auth.Server(o.Listen, handler)
	// Calls may outlive ctx for drainWait, so requests have a context of their own.
	requests, endRequests := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endRequests(run.ErrStopped)
	srv.BaseContext = func(net.Listener) context.Context { return requests }
	replicas := auth.Server("", nil)
	replicas.BaseContext = srv.BaseContext
	self.Start(replicas, srv.Handler, func(err error) {
		if o.Log != nil {
			o.Log.Warn("other servers of this home cannot forward requests to this one", "error", err)
		}
	})
	if o.Started != nil {
		o.Started(reachable(listener.Addr()))
	}
	go tellListing(ctx, r, mcp, o)
	served := make(chan error, 1)
	go func() { served <- serveOn(srv, listener, c.Server.TLS) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	o.drain = cmp.Or(o.drain, drainWait)
	drain, stop := context.WithTimeout(context.WithoutCancel(ctx), o.drain)
	defer stop()
	if n := r.Running(); n > 0 && o.Log != nil {
		o.Log.Info("stopping, when the running calls have ended", "calls", n, "at_most", o.drain)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		r.Drain(drain)
		endRequests(run.ErrStopped) // also those of streams that only listen
	}()
	if err := srv.Shutdown(drain); err != nil {
		answers, stop := context.WithTimeout(context.WithoutCancel(ctx), answerWait)
		defer stop()
		if err := srv.Shutdown(answers); err != nil {
			srv.Close()
		}
	}
	<-drained // calls of other surfaces
	<-served
	return nil
}

// reachable returns at, or its port on 127.0.0.1 if it stands for all addresses.
func reachable(at net.Addr) net.Addr {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: tcp.Port}
	}
	return at
}

// pageAddress returns the address at which a person opens the page.
func pageAddress(c config.Server, at net.Addr) string {
	if c.URL != "" {
		return strings.TrimSuffix(c.URL, "/") + "/"
	}
	scheme := "http"
	if c.TLS.Cert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(at.String())
	if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// openReplica registers this server with the others of its home.
func openReplica(r *app.App) (*Replica, error) {
	key, err := r.StateKey()
	if err != nil {
		return nil, err
	}
	return OpenReplica(r.Home(), key)
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

// ServeStdio serves MCP to one client over a pair of streams.
func ServeStdio(ctx context.Context, r *app.App, in io.ReadCloser, out io.WriteCloser, o Options) error {
	s, err := newMCP(r, r.Config(), o, func(context.Context) toolroom.Identity { return o.Client }, nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	r.Start(ctx)
	warnPlainSecrets(o.Log, r.Config())
	watchConfig(ctx, r, s, o)
	go watchRules(ctx, r, o.Log)
	go tellListing(ctx, r, s, o)
	return s.Stdio(ctx, in, redactedLines{r.Parts().Runner.Secrets.Lines(out), out})
}

func newHandler(r *app.App, c *config.Config, o Options, self *Replica) (http.Handler, *mcpserver.Server, func(), error) {
	parts := r.Parts()
	resource := newResource(c.Server, parts.Runner.Scopes)
	state, err := r.StateKey()
	if err != nil {
		return nil, nil, nil, err
	}
	about, err := newCard(c.Server.URL, o.Version)
	if err != nil {
		return nil, nil, nil, err
	}
	mcp, err := newMCP(r, c, o, auth.Identity, resource, self)
	if err != nil {
		return nil, nil, nil, err
	}
	authOptions := auth.Options{
		Verify:   parts.Tokens.Verify,
		Required: auth.Required(c.Server.Auth.Required),
		Origins:  c.Server.Origins,
		Listen:   o.Listen,
		URL:      c.Server.URL,
		Hosts:    c.Server.Hosts,
		MaxBody:  c.Server.MaxBody,
		Open:     api.OpenPaths(),
		Page:     auth.PageKey(state), Decisions: api.DecisionPaths(),
		Privileged: append(api.DecisionPaths(), toolflow.Prefix+"/api"),
		Log:        o.Log,
	}
	if resource != nil {
		authOptions.Verify, authOptions.Challenge = resource.verify(parts.Tokens.Verify), resource.challenge
		authOptions.Open = append(authOptions.Open, resource.MetadataPaths()...)
	}
	people, err := newLogin(r, c.Server, authOptions.Verify, o.Log)
	if err != nil {
		return nil, nil, nil, err
	}
	authOptions.Session, authOptions.SignIn = people.Identity, people.Form
	authOptions.Open, authOptions.Links = append(authOptions.Open, people.Paths()...), []string{auth.LoginCallbackPath}
	guard := auth.Middleware(authOptions)
	sources := func() []api.Source {
		var out []api.Source
		for _, s := range r.Sources() {
			out = append(out, api.Source(s))
		}
		return out
	}
	metrics := api.NewMetrics(api.MetricsOptions{Approvals: parts.Approvals, Sources: sources, ReceiptQueue: parts.Recorder.Queued, WarmPools: warmPools(r)})
	stopCounting, stopMetrics := parts.WatchReceipts(metrics.Count), metrics.Watch(parts.Runner.Bus)
	rest := api.New(api.Options{
		Runner: parts.Runner, Worker: parts.Worker, Approvals: parts.Approvals, Artifacts: parts.Artifacts, Sessions: parts.Sessions,
		Releases: parts.Releases,
		Owner:    func(e *toolroom.Event) toolroom.Identity { return e.Identity },
		Receipts: r, Sources: sources, Explain: r.Explain, Elevator: r, Metrics: metrics,
		Admin:   api.Admin{Tokens: parts.Tokens, CheckSet: r.CheckSet, CheckEnvironment: r.CheckEnvironment, Operator: &operator{r, mcp, o}},
		Version: o.Version, Log: o.Log,
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.HTTP())
	mux.Handle(setPath+"{set}", inSet(mcp.HTTP(), r))
	if c.Server.MCP.SSE {
		mux.Handle("/sse", mcp.SSE())
	}
	mux.Handle("GET /{$}", page(o.Version, authOptions.Page))
	if c.Server.ToolFlow {
		mux.Handle(toolflow.Prefix+"/", toolflow.Handler(toolflow.Options{
			Runner: parts.Runner, Releases: parts.Releases, Receipts: r, Wake: parts.Worker.Wake, Config: r.Config, Environment: o.environment,
		}))
	}
	people.Register(mux)
	mux.Handle("/", rest)
	inner := guard(inEnvironment(mux, r.CheckEnvironment))
	if resource != nil {
		metadata := resource.Metadata(slices.Collect(maps.Keys(c.Server.Auth.OAuth.Scopes)))
		for _, path := range resource.MetadataPaths() {
			mux.Handle("GET "+path, metadata)
		}
		inner = guard(resource.guarded(inEnvironment(mux, r.CheckEnvironment)))
	}
	if o.Local != nil {
		local := authOptions
		local.Required = auth.Never
		o.Local(auth.Secure(redactResponses(auth.Middleware(local)(inEnvironment(mux, r.CheckEnvironment)), parts.Runner.Secrets)))
	}
	outer, anonymous := http.NewServeMux(), auth.Anonymous(authOptions)
	outer.Handle("/", inner)
	// Clients read the card before they connect, without a token.
	if about != nil {
		outer.Handle("GET "+cardPath, anonymous(about))
		outer.Handle("OPTIONS "+cardPath, anonymous(about))
	}
	// A signed link itself identifies the person that answers.
	outer.Handle(approval.AnswerPath, anonymous(answerHandler(parts.Approvals, cmp.Or(o.Log, slog.New(slog.DiscardHandler)))))
	return auth.Secure(redactResponses(outer, parts.Runner.Secrets)), mcp, func() { stopCounting(); stopMetrics(); mcp.Close() }, nil
}

func warmPools(r *app.App) func() []api.WarmPool {
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

func newMCP(r *app.App, c *config.Config, o Options, who func(context.Context) toolroom.Identity, protected *resource, self *Replica) (*mcpserver.Server, error) {
	expose, err := exposures(c)
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
		Replica: name, ForwardTo: neighbour,
		Scopes: scopes, StateKey: key,
		Runner: parts.Runner, Artifacts: parts.Artifacts, Approvals: parts.Approvals, Library: parts.Library, Worker: parts.Worker,
		Expose: expose, Identity: who, Environment: o.environment, Version: o.Version, Log: o.Log,
		PollAfter:    c.Server.MCP.PollAfter,
		ApprovalWait: func() time.Duration { return r.Config().Approvals.MCPWait }, Page: o.page,
		Ready: func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, firstListWait)
			defer cancel()
			// The state of a source reports its failure.
			_ = r.Load(ctx)
		},
	})
}

// CheckConfig returns an error if this build cannot serve a valid config.
func CheckConfig(c *config.Config) error {
	_, err := exposures(c)
	return err
}

// exposures converts the config of how tools are exposed to callers with and without tool
// sets.
func exposures(c *config.Config) (mcpserver.Exposure, error) {
	out, err := exposure(c.Expose, c.Tools)
	if err != nil {
		return out, err
	}
	out.Sets = map[string]*mcpserver.Exposure{}
	for name, set := range c.Sets {
		e := set.Expose
		e.Hidden = slices.Concat(e.Hidden, c.Expose.Hidden)
		e.Names = c.Expose.Names
		one, err := exposure(e, c.Tools)
		if err != nil {
			return out, err
		}
		out.Sets[name] = &one
	}
	return out, nil
}

// exposure converts the config of how tools are exposed: directly, behind search, or
// both, by patterns, which may name the groups of tools.
func exposure(e config.Expose, tools policy.Config) (mcpserver.Exposure, error) {
	out := mcpserver.Exposure{Plain: e.Names == "plain", PerSource: e.PerSource}
	direct := e.Direct
	switch e.Mode {
	case "auto":
		large := e
		large.Mode, e.Mode = "search", "direct"
		out, err := exposure(e, tools)
		if err != nil {
			return out, err
		}
		many, err := exposure(large, tools)
		out.Large = &many
		return out, err
	case "direct":
		direct = append([]string{"*"}, direct...)
		out.Search = len(e.Search) > 0
	case "search":
		out.Search = true
	case "code":
		out.Code = true
	}
	var err error
	if out.Direct, err = tools.ParsePatterns(direct); err != nil {
		return out, err
	}
	if out.NotDirect, err = tools.ParsePatterns(e.Search); err != nil {
		return out, err
	}
	out.Hidden, err = tools.ParsePatterns(e.Hidden)
	return out, err
}

// tellListing reports what clients see, once the sources have listed their tools.
func tellListing(ctx context.Context, r *app.App, s *mcpserver.Server, o Options) {
	if o.Listed == nil {
		return
	}
	_ = r.Load(ctx) // the state of a source reports its failure
	if ctx.Err() != nil {
		return
	}
	o.Listed(listings(s, r, o.Client))
	if o.Log != nil {
		for _, u := range r.Unmatched() {
			o.Log.Warn("a rule matches no tool", "rule", u.Key, "pattern", u.Pattern, "hint", u.Hint())
		}
	}
}

// Listings returns what an MCP client that the local operator starts sees now, and then
// what the clients of each tool set see.
func Listings(r *app.App) ([]Listing, error) {
	s, err := newMCP(r, r.Config(), Options{}, func(context.Context) toolroom.Identity { return toolroom.Identity{} }, nil, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return listings(s, r, toolroom.Identity{}), nil
}

// listings returns what a client sees and, unless it is bound to a tool set, what the clients
// of each set see.
func listings(s *mcpserver.Server, r *app.App, who toolroom.Identity) []Listing {
	out := []Listing{s.Listing(who)}
	if who.Set != "" {
		return out
	}
	for _, who.Set = range slices.Sorted(maps.Keys(r.Config().Sets)) {
		out = append(out, s.Listing(who))
	}
	return out
}

// reload applies a changed config, and tells the clients whose lists may have changed.
func reload(r *app.App, s *mcpserver.Server, c *config.Config) error {
	expose, err := exposures(c)
	if err != nil {
		return err
	}
	if err := r.Reload(c); err != nil {
		return err
	}
	s.SetExposure(expose)
	return nil
}

// Reloaded is the outcome of a reload.
type Reloaded struct {
	File string `json:"file"`
	// Changed are the keys that the reload has changed, and Restart those that differ from
	// the config at the server's start and take effect only after a restart.
	Changed []string `json:"changed"`
	Restart []string `json:"restart"`
}

// reloadNow reads the config again, whether or not it has changed.
func reloadNow(r *app.App, s *mcpserver.Server, o Options) (Reloaded, error) {
	if o.ConfigFile == "" {
		return Reloaded{}, toolroom.Errorf(toolroom.CodeUnsupported, "the server has no config file")
	}
	c, err := config.LoadVerified(o.ConfigFile, o.Verify)
	if err != nil {
		return Reloaded{}, err
	}
	before := r.Config()
	if err := reload(r, s, c); err != nil {
		return Reloaded{}, err
	}
	out := Reloaded{File: o.ConfigFile}
	out.Changed, out.Restart = differences(r, c, before)
	return out, nil
}

func watchConfig(ctx context.Context, r *app.App, s *mcpserver.Server, o Options) {
	if o.ConfigFile == "" {
		return
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	go func() {
		err := config.WatchVerified(ctx, o.ConfigFile, o.Record, r.ConfigText(), o.Verify, func(c *config.Config, err error) {
			if err == nil {
				err = reload(r, s, c)
			}
			if err == nil {
				warnPlainSecrets(o.Log, c)
			}
			if err != nil {
				about := []any{"error", err}
				if try := toolroom.AsError(err).Hints(); try != "" {
					about = append(about, "try", try)
				}
				o.Log.Error("cannot apply the changed config; the previous one stays in force", about...)
			}
		})
		if err != nil && ctx.Err() == nil {
			o.Log.Warn("cannot watch the config for changes", "error", err)
		}
	}()
}

// warnPlainSecrets names the settings that seem to hold a secret in plain text.
func warnPlainSecrets(log *slog.Logger, c *config.Config) {
	if log == nil {
		return
	}
	for _, s := range c.PlainSecrets() {
		log.Warn("the config seems to hold a secret in plain text", "key", s.Key, "try", s.Fix)
	}
}

func listenError(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return toolroom.Errorf(toolroom.CodeInternal, "another Toolroom or another program listens on %s: %w", addr, syscall.EADDRINUSE).
			WithCLIHint("stop it, or choose another address: toolroom serve --listen 127.0.0.1:7071")
	}
	return toolroom.Errorf(toolroom.CodeInternal, "listen on %s: %w", addr, err).
		WithCLIHint("choose another address, such as 127.0.0.1:7071, with --listen or server.listen")
}

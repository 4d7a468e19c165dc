// Package app builds a running Toolroom from a config: the store, the services of the
// pipeline, the sources, the engines and drivers, and the runner over them all. It is the
// only package that may import everything below the surfaces. The command line and the
// server work on an [App]; package room is what Go programs see of it.
//
// Start with [Open]. Its order is that of the file app.go.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/receipt/export"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/internal/schedule"
	"github.com/toolroom/toolroom/internal/search/learn"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// Options configure a room. The zero value opens a room in a temporary folder, without
// sources, that permits everything.
type Options struct {
	// Home is the folder that holds all state. It is created if it is missing. If Home is
	// empty, a temporary folder is used, which Close removes.
	Home string
	// Workspace is the folder in which the built-in tools work unless the config names
	// others. If it is empty, only those packs are on that have a section in the config.
	Workspace string
	// ConfigFile is the toolroom.yaml to read; empty reads none.
	ConfigFile string
	// Verify, if not nil, is asked about the content of the config, and of each file that it
	// names and that decides what may run, before it is used.
	Verify func(path string, text []byte) error
	// Environ is the environment that child processes may inherit from, in the form of
	// os.Environ. Nil means the environment of this process. Children inherit only few
	// variables.
	Environ []string
	// Log receives warnings and errors; nil discards them.
	Log *slog.Logger
	// Helper is the path of a binary that calls [RunHelper], usually that of this program
	// (os.Executable). Without it, JavaScript and the built-in sandbox are not available.
	Helper string
	// Guest runs programs inside sandboxes; if it is empty, Helper does.
	Guest Guest
	// Runner is toolroom-runner, the program with the sandbox drivers of foreign engines, as
	// a path or as a name in PATH. It is started when it is first needed, must be of the
	// build Version, and ends with this process. If it is empty, and the config names none,
	// there are no such drivers; the drivers process, remote and host always exist. Drivers
	// creates further drivers, in this process; nil creates none.
	Runner  string
	Drivers func(Runtimes) []sandbox.Driver
	// Workflows creates the workflows that carry programs and chains over restarts, if the
	// config asks for them; if it is nil, the runner carries them.
	Workflows func(WorkflowOptions) Workflows
	// Receipts receives a line for each call if the config logs receipts to stdout; nil
	// discards them.
	Receipts io.Writer
	// Select returns the index of the offer that serves a tool which several sources
	// have; the offers are in the order of registration. It must be fast and must not use
	// the room. If it is nil, or the index is none, tools of this process come first, then
	// HTTP, OpenAPI and command-line sources, then MCP servers.
	Select func(offers []source.Offer) int
	// Missing is called for a name that no source has a tool for, before the call fails;
	// the function may register the tool, which is then found. An error is the call's,
	// unless the tool is there now. Missing may be called concurrently; nil does nothing.
	Missing func(ctx context.Context, r *App, name string) error
	// Version is the version that MCP servers and clients see.
	Version string
}

// App is an open room. Its methods are safe for concurrent use.
type App struct {
	o      Options
	home   string
	isTemp bool
	log    *slog.Logger
	owner  string

	store    *sqlite.Store
	recorder *receipt.Recorder
	head     *receipt.Head
	// storeFolder is the folder of the store and its files.
	storeFolder string
	lines       *export.Lines
	collector   *export.OTLP
	approvals   *approval.Service
	artifacts   *artifact.Store
	sessions    *session.Store
	secrets     *secret.Store
	resolver    *secret.Resolver
	redactor    *secret.Redactor
	catalog     *catalog.Catalog
	library     library.Library
	policy      policySwitch
	definitions definitions
	trust       atomic.Pointer[trustRules]
	runner      *run.Runner
	receipts    *receiptLog
	worker      *run.Worker
	funcs       *gofunc.Source
	drivers     []sandbox.Driver
	engines     []engine.Engine
	workflows   Workflows
	// programs have drivers; runnerProgram, if not nil, is the one of foreign engines.
	programs      []*program.Program
	runnerProgram *program.Program
	code          *code.Service
	releases      *release.Service
	served        *releases
	watching      *watching
	schedules     *schedule.Service
	learner       *learn.Learner

	searching sync.Mutex // guards meaning and indexing
	meaning   *meaning   // nil if searches are by words alone
	indexing  bool       // this process embeds tools in the background

	// newSource creates a source from its section of the config.
	newSource func(name string, s config.Source, c *config.Config) (source.Source, error)

	reloading sync.Mutex // serialises changes of the config and its policy
	opening   string     // the program that openProgram makes a source; guarded by reloading

	mu       sync.Mutex
	config   *config.Config
	started  *config.Config // the config that the room was opened with
	managers map[string]*sourceManager
	packs    *packs

	enforcing  sync.Once // see enforces
	canEnforce bool

	background sync.WaitGroup
	stop       context.CancelFunc // guarded by mu
	closed     bool               // guarded by reloading
}

// Open opens a room. It starts no source: each starts at its first use or with
// [App.Start]. Several processes may open the same home.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	r := &App{o: o, log: o.Log, managers: map[string]*sourceManager{}, owner: proc.Owner()}
	r.newSource = r.build
	r.policy.definitions = &r.definitions
	r.trust.Store(&trustRules{})
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.config, err = readConfig(o.ConfigFile, o.Verify); err != nil {
		return nil, err
	}
	r.started = r.config
	if err := r.openHome(); err != nil {
		return nil, err
	}
	if err := r.openParts(ctx); err != nil {
		return nil, err
	}
	if err := r.registerBuiltins(); err != nil {
		return nil, err
	}
	if err := r.openCode(ctx); err != nil {
		return nil, err
	}
	if err := r.apply(r.config); err != nil {
		return nil, err
	}
	return r, r.openReleases(ctx)
}

func readConfig(path string, verify config.Verify) (*config.Config, error) {
	if path == "" {
		return config.Default(), nil
	}
	return config.LoadVerified(path, verify)
}

func (r *App) openHome() error {
	r.home = r.o.Home
	if r.home == "" {
		temp, err := mark.MkdirTemp("", "room")
		if err != nil {
			return err
		}
		r.home, r.isTemp = temp, true
		return nil
	}
	if err := os.MkdirAll(r.home, 0o700); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "cannot create the home folder: %w", err).
			WithHint("choose another one with --home")
	}
	return nil
}

func (r *App) openParts(ctx context.Context) error {
	path, err := storePath(r.home, r.config.Store.URL)
	if err != nil {
		return err
	}
	if r.store, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		return err
	}
	r.storeFolder = filepath.Dir(path)
	r.head = receipt.NewHead(filepath.Join(r.storeFolder, "receipts.head"))
	key, err := r.secretsKey(ctx, r.config.Secrets.Key)
	if err != nil {
		return err
	}
	if r.secrets, err = secret.Open(r.home, secret.Options{Key: key}); err != nil {
		return err
	}
	r.redactor = r.secrets.Redactor()
	r.log = slog.New(r.redactor.Handler(r.log.Handler()))
	r.resolver = secret.NewResolver(r.secrets, r.resolverOptions(r.config.Secrets))
	if err := r.openRecorder(ctx); err != nil {
		return err
	}
	links, err := r.sealKey("links")
	if err != nil {
		return err
	}
	r.approvals = approval.New(r.store, approval.Options{
		TTL: r.config.Approvals.TTL, SessionTTL: r.config.Approvals.Session, Terms: r.approvalTerms, Key: links,
	})
	if r.artifacts, err = artifact.Open(ctx, filepath.Join(r.home, "artifacts"), r.store, artifact.Options{
		Results: artifactLimits(r.config.Results), Files: artifactLimits(r.config.Artifacts),
		Labels: run.TaintOf, OnRead: r.readArtifact,
	}); err != nil {
		return err
	}
	if r.sessions, err = session.Open(filepath.Join(r.home, "sessions"), session.Options{Limits: sessionLimits(r.config.Code.Sessions)}); err != nil {
		return err
	}
	needed, err := newScopes(r.config.Server)
	if err != nil {
		return err
	}
	r.receipts = &receiptLog{Receipts: r.recorder, secrets: r.redactor}
	r.openLearner()
	r.receipts.Watch(r.learnFrom)
	r.catalog = catalog.New(catalog.Options{Learner: learning{r}, Reserved: reserved.Check, Shared: r.logShared, Selector: selector(r.o.Select)})
	r.runner = run.New(run.Options{
		Catalog:    r.catalog,
		Policy:     &r.policy,
		Receipts:   r.receipts,
		Artifacts:  r.artifacts,
		Approvals:  r.approvals,
		Keys:       r.store,
		Jobs:       r.store,
		Limits:     runLimits(r.config.Limits),
		Discover:   r.discover,
		Preview:    r.preview,
		MustRecord: r.mustRecord,
		Home:       r.userHome(),
		Secrets:    r.redactor,
		Trust:      func(t *toolroom.Tool) run.Trust { return r.trust.Load().of(t) },
		Taints:     r.store,
		Spending:   r.spending(),
		Scopes:     needed.of,
		Owner:      r.owner,
		OwnerAlive: proc.Alive,
		Log:        r.log,
	})
	r.worker = run.NewWorker(r.runner, run.WorkerOptions{})
	r.schedules = r.newSchedules()
	return nil
}

// storePath parses the store's URL: sqlite:PATH, relative to the home.
func storePath(home, url string) (string, error) {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "store.url: this build supports only SQLite, not %q", schemeOf(url)).
			WithHint(`write store: {url: "sqlite:toolroom.db"}`)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(home, path)
	}
	return path, nil
}

func schemeOf(url string) string {
	scheme, _, _ := strings.Cut(url, ":")
	return scheme
}

func (r *App) lookupEnv(name string) (string, bool) {
	for _, entry := range r.o.Environ {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

// Close ends every source and engine, waits for current calls, and flushes all records. It
// is idempotent.
func (r *App) Close() error {
	var errs []error
	r.reloading.Lock()
	r.closed = true // no reload starts what nobody would close
	r.reloading.Unlock()
	r.mu.Lock()
	stop := r.stop
	r.mu.Unlock()
	if stop != nil {
		stop()
	}
	r.background.Wait()
	r.watching.close()
	r.mu.Lock()
	managers, packs := r.managers, r.packs
	r.managers, r.packs = map[string]*sourceManager{}, nil
	r.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { panics.Log(r.log, "closing the built-in tools", func() { r.closePacks(packs) }) })
	for _, h := range managers {
		wg.Go(func() { panics.Log(r.log, "closing a source", func() { h.Close() }) })
	}
	ended := make([]error, len(r.engines))
	for i, e := range r.engines {
		wg.Go(func() { ended[i] = e.Close() })
	}
	wg.Wait()
	r.engines = nil
	errs = append(errs, ended...)
	r.closeSearch()
	errs = append(errs, r.closePrograms())
	if r.recorder != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		errs = append(errs, r.recorder.Close(ctx))
		cancel()
	}
	errs = append(errs, r.closeLogs())
	if r.store != nil {
		errs = append(errs, r.store.Close())
		r.store = nil
	}
	if r.isTemp {
		errs = append(errs, os.RemoveAll(r.home))
	}
	return errors.Join(errs...)
}

// closeTimeout limits how long Close waits for a full or locked disk.
const closeTimeout = 10 * time.Second

// Run runs one call and always returns a result. If the tool is not known yet, Run first
// lists the sources that may have it.
func (r *App) Run(ctx context.Context, call toolroom.Call) *toolroom.Result {
	return r.runner.Run(ctx, call)
}

// Stream runs one call and yields its events. The last event carries the result. Breaking
// out of the loop cancels the call.
func (r *App) Stream(ctx context.Context, call toolroom.Call) iter.Seq[toolroom.Event] {
	return r.runner.Stream(ctx, call)
}

// Chain runs steps one after the other, as the caller in as.
func (r *App) Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step) *toolroom.ChainResult {
	if as.Surface == "" {
		as.Surface = "chain"
	}
	return r.runner.Chain(ctx, as, steps)
}

// Batch runs calls in parallel and returns their results in order.
func (r *App) Batch(ctx context.Context, calls []toolroom.Call, parallel int) []*toolroom.Result {
	return r.runner.Batch(ctx, calls, parallel)
}

// Submit accepts a call to run in the background and returns once the call is durable. It
// needs a process with the same home that has called [App.Start].
func (r *App) Submit(ctx context.Context, call toolroom.Call) (*run.Job, error) {
	job, err := r.runner.Submit(ctx, call)
	if err == nil {
		r.worker.Wake()
	}
	return job, err
}

// Search ranks the tools that who may call.
func (r *App) Search(who toolroom.Identity, query string, o catalog.SearchOptions) toolroom.Found {
	o.Visible = r.runner.Visible(who)
	if o.Caller == nil {
		o.Caller = &catalog.Caller{Identity: who}
	}
	r.recallVectors(context.Background())
	return r.catalog.Search(query, o)
}

// Tools lists the tools that who may call.
func (r *App) Tools(who toolroom.Identity, o catalog.ListOptions) (catalog.Page, error) {
	o.Visible = r.runner.Visible(who)
	return r.catalog.List(o)
}

// Describe returns the description of a tool that who may call.
func (r *App) Describe(ctx context.Context, who toolroom.Identity, spelling string, level toolroom.Level, form toolroom.Form) (*toolroom.Description, error) {
	return r.DescribeFor(ctx, toolroom.Call{Identity: who, Tool: spelling}, level, form)
}

// DescribeFor is like [App.Describe], for the version of the tool that would serve a call.
func (r *App) DescribeFor(ctx context.Context, call toolroom.Call, level toolroom.Level, form toolroom.Form) (*toolroom.Description, error) {
	unlisted := r.find(ctx, call.Tool)
	visible := r.runner.Visible(call.Identity)
	e, err := r.catalog.Resolve(call.Tool, visible)
	if err == nil || toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		if version, refused := r.served.Snapshot().Serve(&call, e); refused != nil {
			return nil, refused
		} else if version != nil {
			e, err = version, nil
		}
	}
	if err != nil {
		return nil, cmp.Or(unlisted, err)
	}
	if decision := r.policy.Decide(ctx, policy.Request{Tool: &e.Tool, Who: call.Identity}); decision.Effect == toolroom.VerdictDeny {
		denied := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s", call.Identity, e.Tool.ID, decision.Rule)
		return nil, denied.WithHint("%s", decision.Hint).WithCLIHint("%s", decision.CLIHint)
	}
	return r.catalog.Describe(ctx, e, level, form)
}

// find lists the sources that may have a tool, if necessary.
func (r *App) find(ctx context.Context, spelling string) error {
	if _, err := r.catalog.Resolve(spelling, nil); toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		return r.discover(ctx, spelling)
	}
	return nil
}

// discover lists the sources that may have an unknown tool: those that its spelling names,
// else all that were never listed. The error is the reason that a named source cannot be
// listed.
func (r *App) discover(ctx context.Context, spelling string) error {
	if err := r.list(ctx, spelling); err != nil || r.o.Missing == nil {
		return err
	}
	if _, err := r.catalog.Resolve(spelling, nil); toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return nil
	}
	var failed error
	if err := panics.Catch(func() { failed = r.o.Missing(ctx, r, spelling) }); err != nil {
		return fmt.Errorf("find %s: %w", spelling, err)
	}
	return failed
}

// list lists the sources that a spelling names, or all.
func (r *App) list(ctx context.Context, spelling string) error {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return nil // the resolver reports the mistake
	}
	var named []string
	for _, id := range readings {
		if r.manager(id.Namespace) != nil {
			named = append(named, id.Namespace)
		}
	}
	if len(named) == 0 {
		// If one of all sources fails, that says nothing about this tool.
		_ = r.Load(ctx)
		return nil
	}
	return r.each(named, func(h *sourceManager) error { return h.relist(ctx) })
}

// policySwitch holds the current decider. A reload replaces it between calls.
type policySwitch struct {
	current     atomic.Pointer[inForce]
	definitions *definitions
}

// inForce is the compiled policy of one config.
type inForce struct {
	policy *policy.Policy
	grants grants
}

// Decide applies the current policy, then the grants of the secrets that the call would
// use, then which definitions are quarantined.
func (s *policySwitch) Decide(ctx context.Context, r policy.Request) policy.Decision {
	now := s.current.Load()
	return s.definitions.narrow(now.grants.narrow(now.policy.Decide(ctx, r), r), r)
}

// Namespaces returns the number of tools that who may call, by namespace.
func (r *App) Namespaces(who toolroom.Identity) map[string]int {
	return r.catalog.Namespaces(r.runner.Visible(who))
}

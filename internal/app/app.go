// Package app builds a running Toolroom from a config: the store, the services of the
// pipeline, the sources, the engines and drivers, and the runner over them all. It is the
// only package that may import everything below the surfaces. The command line and the
// server work on an [App]; package room is what Go programs see of it.
//
// Start with [Open]. Its order is that of the file app.go.
package app

import (
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
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/internal/schedule"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/internal/token"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// Options configure a room. The zero value opens a room in a temporary folder, without
// sources, that permits everything. Package room describes the fields that it has too.
type Options struct {
	Home       string
	Workspace  string
	ConfigFile string
	Verify     func(path string, text []byte) error
	Environ    []string
	Log        *slog.Logger
	Helper     string
	Guest      Guest
	Receipts   io.Writer
	Select     func(offers []source.Offer) int
	Missing    func(ctx context.Context, r *App, name string) error
	Version    string
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
}

// OfRoom returns the App that implements a *room.Room. Package room sets it, so that
// package serve can reach the App and programs that import room cannot.
var OfRoom func(room any) *App

// App is an open room. Its methods are safe for concurrent use.
type App struct {
	o      Options
	home   string
	isTemp bool
	log    *slog.Logger
	owner  string

	store       *sqlite.Store
	recorder    *receipt.Recorder
	receiptHead *receipt.Head
	// storeFolder is the folder of the store and its files.
	storeFolder      string
	receiptLines     *receipt.Lines
	receiptQueue     *receipt.LineQueue // nil unless lines go to stdout
	receiptCollector *receipt.OTLP
	approvals        *approval.Service
	artifacts        *artifact.Store
	sessions         *session.Store
	secrets          *secret.Store
	resolver         *secret.Resolver
	redactor         *secret.Redactor
	catalog          *catalog.Catalog
	library          catalog.Library
	policy           policySwitch
	definitions      offeredDefinitions
	trust            atomic.Pointer[trustRules]
	tokens           *token.Verifier
	runner           *run.Runner
	receipts         *receiptLog
	worker           *run.Worker
	funcs            *gofunc.Source
	drivers          []sandbox.Driver
	engines          []engine.Engine
	workflows        Workflows
	// programs have drivers; runnerProgram, if not nil, is the one of foreign engines.
	programs       []*program.Program
	runnerProgram  *program.Program
	code           *code.Service
	releases       *release.Service
	servedVersions *servedVersions
	versionWatcher *versionWatcher
	schedules      *schedule.Service
	learner        *search.Learner

	searchMu sync.Mutex      // guards meaning and indexing
	semantic *semanticSearch // nil if searches use words only
	indexing bool            // this process embeds tools in the background

	// newSource creates a source from its section of the config.
	newSource func(name string, s config.Source, c *config.Config) (source.Source, error)

	reloadMu       sync.Mutex // serialises changes of the config and its policy
	openingProgram string     // the program that openProgram makes a source; guarded by reloading

	mu      sync.Mutex
	config  *config.Config
	started *config.Config // the config that the room was opened with
	// configText is the text of the config file that was read last, and policyStamp the
	// stamp of the policy files before they were read last.
	configText  []byte
	policyStamp string
	managers    map[string]*sourceManager
	packs       *packs

	enforceOnce sync.Once // see enforcesRules
	canEnforce  bool

	background sync.WaitGroup
	stop       context.CancelFunc // guarded by mu
	closeOnce  sync.Once
	closed     bool // guarded by reloading
}

// OpenState opens the store, receipts, artifacts, sessions, secrets and tokens of a home,
// but not its sources, built-in tools, engines and released functions. Only [App.Parts],
// [App.RecordAdmin] and [App.Close] may be called.
func OpenState(ctx context.Context, o Options) (_ *App, err error) {
	r := newApp(o)
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.config, err = r.readConfig(); err != nil {
		return nil, err
	}
	r.started = r.config
	if err := r.openHome(); err != nil {
		return nil, err
	}
	return r, r.openParts(ctx)
}

// Open opens a room. It starts no source: each starts at its first use or with
// [App.Start]. Several processes may open the same home.
func Open(ctx context.Context, o Options) (_ *App, err error) {
	r, err := OpenState(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
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

func newApp(o Options) *App {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	r := &App{o: o, log: o.Log, managers: map[string]*sourceManager{}, owner: proc.Owner()}
	r.newSource = r.build
	// The list of an earlier run may have definitions that are released now.
	r.servedVersions = &servedVersions{room: r, shown: map[string]shownVersion{}, entries: map[release.Choice]*catalog.Entry{}}
	r.policy.definitions = &r.definitions
	r.trust.Store(&trustRules{})
	return r
}

func (a *App) readConfig() (*config.Config, error) {
	if a.o.ConfigFile == "" {
		return config.Default(), nil
	}
	return config.LoadVerified(a.o.ConfigFile, func(path string, text []byte) error {
		a.mu.Lock()
		a.configText = text
		a.mu.Unlock()
		if a.o.Verify == nil {
			return nil
		}
		return a.o.Verify(path, text)
	})
}

// ConfigText returns the text of the config file that the app has read last.
func (a *App) ConfigText() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.configText
}

func (a *App) openHome() error {
	a.home = a.o.Home
	if a.home == "" {
		temp, err := proc.MkdirTemp("", "room")
		if err != nil {
			return err
		}
		a.home, a.isTemp = temp, true
		return nil
	}
	return MakeHome(a.home)
}

// MakeHome creates the folder of a home, if it is missing.
func MakeHome(home string) error {
	if info, err := os.Stat(home); err == nil && !info.IsDir() {
		return toolroom.Errorf(toolroom.CodeInternal, "the home %s is a file, not a folder", home).
			WithHint("choose another one with --home or TOOLROOM_HOME")
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "cannot create the home folder: %w", err).
			WithHint("choose another one with --home")
	}
	return nil
}

func (a *App) openParts(ctx context.Context) error {
	path, err := storePath(a.home, a.config.Store.URL)
	if err != nil {
		return err
	}
	if a.store, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		return err
	}
	a.tokens = token.NewVerifier(a.store, nil)
	a.storeFolder = filepath.Dir(path)
	a.receiptHead = receipt.NewHead(filepath.Join(a.storeFolder, "receipts.head"))
	key, err := a.secretsKey(ctx, a.config.Secrets.Key)
	if err != nil {
		return err
	}
	if a.secrets, err = secret.Open(a.home, secret.Options{Key: key}); err != nil {
		return err
	}
	a.redactor = a.secrets.Redactor()
	a.log = slog.New(a.redactor.Handler(a.log.Handler()))
	a.resolver = secret.NewResolver(a.secrets, a.resolverOptions(a.config.Secrets))
	if err := a.openRecorder(ctx); err != nil {
		return err
	}
	links, err := a.sealKey("links")
	if err != nil {
		return err
	}
	a.approvals = approval.New(a.store, approval.Options{
		TTL: a.config.Approvals.TTL, SessionTTL: a.config.Approvals.Session, Terms: a.approvalTerms, Key: links,
	})
	if a.artifacts, err = artifact.Open(ctx, filepath.Join(a.home, "artifacts"), a.store, artifact.Options{
		Results: artifactLimits(a.config.Results), Files: artifactLimits(a.config.Artifacts),
		Labels: run.TaintOf, OnRead: a.readArtifact, Redactor: a.redactor,
	}); err != nil {
		return err
	}
	if a.sessions, err = session.Open(filepath.Join(a.home, "sessions"), session.Options{Limits: sessionLimits(a.config.Code.Sessions)}); err != nil {
		return err
	}
	a.receipts = &receiptLog{Receipts: a.recorder, secrets: a.redactor}
	a.openLearner()
	a.receipts.Watch(a.learnFrom)
	a.catalog = catalog.New(catalog.Options{Learner: configuredLearner{a}, Reserved: reserved.Check, MissingHint: offHint, Shared: a.logShared, Selector: selector(a.o.Select)})
	a.runner = run.New(run.Options{
		Catalog:    a.catalog,
		Policy:     &a.policy,
		Receipts:   a.receipts,
		Artifacts:  a.artifacts,
		Approvals:  a.approvals,
		Keys:       a.store,
		Jobs:       a.store,
		Limits:     runLimits(a.config),
		Discover:   a.discover,
		Preview:    a.preview,
		MustRecord: a.mustRecord,
		Home:       a.userHome(),
		Secrets:    a.redactor,
		Trust:      func(t *toolroom.Tool) run.Trust { return a.trust.Load().of(t) },
		Taints:     a.store,
		Spending:   a.spending(),
		Tokens:     a.tokens,
		Scopes:     func(t *toolroom.Tool) []string { return a.policy.current.Load().scopes.of(t) },
		Owner:      a.owner,
		OwnerAlive: proc.Alive,
		Log:        a.log,
	})
	a.worker = run.NewWorker(a.runner, run.WorkerOptions{})
	a.schedules = a.newSchedules()
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

func (a *App) lookupEnv(name string) (string, bool) {
	for _, entry := range a.o.Environ {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

// Close ends every source and engine, waits for current calls, and flushes all records. It
// is idempotent. After four minutes, if a driver does not answer, for example, Close returns
// an error, and the rest ends in the background.
func (a *App) Close() (err error) {
	a.closeOnce.Do(func() {
		closed := make(chan error, 1)
		go func() { closed <- a.close() }()
		select {
		case err = <-closed:
		case <-time.After(closeLimit):
			err = toolroom.Errorf(toolroom.CodeInternal, "the room has not closed within %s", closeLimit).
				WithHint("the stacks of all goroutines show what it waits for (SIGQUIT)")
		}
	})
	return err
}

// closeLimit is the longest time that Close takes: a little more than the bounds of all its
// steps together.
const closeLimit = 4 * time.Minute

func (a *App) close() error {
	var errs []error
	a.reloadMu.Lock()
	a.closed = true // no reload starts what nobody would close
	a.reloadMu.Unlock()
	a.mu.Lock()
	stop := a.stop
	a.mu.Unlock()
	shadows := shadowTime // a command waits for the shadow of its call
	if stop != nil {
		stop()
		shadows = closeTimeout
	}
	a.background.Wait()
	a.versionWatcher.close(shadows)
	var wg sync.WaitGroup
	wg.Go(func() { panics.Log(a.log, "closing the built-in tools", func() { a.closePacks(a.packs) }) })
	for _, h := range a.allManagers() {
		wg.Go(func() { panics.Log(a.log, "closing a source", func() { h.Close() }) })
	}
	ended := make([]error, len(a.engines))
	for i, e := range a.engines {
		wg.Go(func() { ended[i] = e.Close() })
	}
	wg.Wait()
	errs = append(errs, ended...)
	a.closeSearch()
	errs = append(errs, a.closePrograms())
	if a.recorder != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		errs = append(errs, a.recorder.Close(ctx))
		cancel()
	}
	errs = append(errs, a.closeLogs())
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	if a.isTemp {
		errs = append(errs, os.RemoveAll(a.home))
	}
	return errors.Join(errs...)
}

// closeTimeout limits how long Close waits for a full or locked disk.
const closeTimeout = 10 * time.Second

// Run runs one call and always returns a result. If the tool is not known yet, Run first
// lists the sources that may have it.
func (a *App) Run(ctx context.Context, call toolroom.Call) *toolroom.Result {
	return a.runner.Run(ctx, call)
}

// Stream runs one call and yields its events. The last event carries the result. Breaking
// out of the loop cancels the call.
func (a *App) Stream(ctx context.Context, call toolroom.Call) iter.Seq[toolroom.Event] {
	return a.runner.Stream(ctx, call)
}

// Chain runs steps one after the other, as the caller in as.
func (a *App) Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step) *toolroom.ChainResult {
	if as.Surface == "" {
		as.Surface = "chain"
	}
	return a.runner.Chain(ctx, as, steps)
}

// Batch runs calls in parallel and returns their results in order.
func (a *App) Batch(ctx context.Context, calls []toolroom.Call, parallel int) []*toolroom.Result {
	return a.runner.Batch(ctx, calls, parallel)
}

// Submit accepts a call to run in the background and returns once the call is durable. It
// needs a process with the same home that has called [App.Start].
func (a *App) Submit(ctx context.Context, call toolroom.Call) (*run.Job, error) {
	job, err := a.runner.Submit(ctx, call)
	if err == nil {
		a.worker.Wake()
	}
	return job, err
}

// Search ranks the tools that who may call.
func (a *App) Search(who toolroom.Identity, query string, o catalog.SearchOptions) toolroom.Found {
	o.View = a.runner.View(who, "")
	if o.Caller == nil {
		o.Caller = &catalog.Caller{Identity: who}
	}
	a.recallVectors(context.Background())
	return a.catalog.Search(query, o)
}

// Tools lists the tools that who may call.
func (a *App) Tools(who toolroom.Identity, o catalog.ListOptions) (catalog.Page, error) {
	o.View = a.runner.View(who, "")
	return a.catalog.List(o)
}

// Describe returns the description of a tool that who may call.
func (a *App) Describe(ctx context.Context, who toolroom.Identity, spelling string, level toolroom.Level, form toolroom.Form) (*toolroom.Description, error) {
	return a.DescribeFor(ctx, toolroom.Call{Identity: who, Tool: spelling}, level, form)
}

// DescribeFor is like [App.Describe], for the version of the tool that would serve a call.
func (a *App) DescribeFor(ctx context.Context, call toolroom.Call, level toolroom.Level, form toolroom.Form) (*toolroom.Description, error) {
	unlisted := a.find(ctx, call.Tool)
	e, err := a.runner.Lookup(&call)
	if toolroom.CodeOf(err) == toolroom.CodeToolNotFound && unlisted != nil {
		return nil, unlisted
	}
	if err != nil {
		return nil, err
	}
	if decision := a.policy.Decide(ctx, policy.Request{Tool: &e.Tool, Who: call.Identity}); decision.Effect == toolroom.VerdictDeny {
		denied := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s", call.Identity, e.Tool.ID, decision.Rule)
		return nil, denied.WithHint("%s", decision.Hint).WithCLIHint("%s", decision.CLIHint)
	}
	return a.catalog.Describe(ctx, e, level, form)
}

// find lists the sources that may have a tool, if necessary.
func (a *App) find(ctx context.Context, spelling string) error {
	if _, err := a.catalog.Resolve(spelling, nil); toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		return a.discover(ctx, spelling)
	}
	return nil
}

// discover lists the sources that may have an unknown tool: those that its spelling names,
// else all that were never listed. The error is the reason that a named source cannot be
// listed.
func (a *App) discover(ctx context.Context, spelling string) error {
	if err := a.list(ctx, spelling); err != nil || a.o.Missing == nil {
		return err
	}
	if _, err := a.catalog.Resolve(spelling, nil); toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return nil
	}
	var failed error
	if err := panics.Catch(func() { failed = a.o.Missing(ctx, a, spelling) }); err != nil {
		return fmt.Errorf("find %s: %w", spelling, err)
	}
	return failed
}

// list lists the sources that a spelling names, or all.
func (a *App) list(ctx context.Context, spelling string) error {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return nil // the resolver reports the mistake
	}
	var named []string
	for _, id := range readings {
		if a.manager(id.Namespace) != nil {
			named = append(named, id.Namespace)
		}
	}
	if len(named) == 0 {
		// If one of all sources fails, that says nothing about this tool.
		_ = a.Load(ctx)
		return nil
	}
	return a.eachManager(named, func(h *sourceManager) error { return h.relist(ctx) })
}

// policySwitch holds the current decider. A reload replaces it between calls.
type policySwitch struct {
	current     atomic.Pointer[activePolicy]
	definitions *offeredDefinitions
}

// activePolicy is the compiled policy of one config.
type activePolicy struct {
	policy *policy.Policy
	grants grants
	scopes scopes
}

// Decide applies the current policy, then the grants of the secrets that the call would
// use, and denies calls of quarantined tools.
func (s *policySwitch) Decide(ctx context.Context, r policy.Request) policy.Decision {
	now := s.current.Load()
	return s.definitions.denyQuarantined(now.grants.denyUngranted(now.policy.Decide(ctx, r), r), r)
}

// Namespaces returns the number of tools that who may call, by namespace.
func (a *App) Namespaces(who toolroom.Identity) map[string]int {
	return a.catalog.Namespaces(a.runner.Visible(who))
}

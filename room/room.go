// Package room is what Go programs embed: a place that holds tools, finds them,
// checks who may call them, runs them and keeps the receipts.
//
//	r, err := room.Open(ctx, room.Options{})
//	if err != nil { … }
//	defer r.Close()
//	room.Register(r, "math:add", "Add two numbers.", func(ctx context.Context, in Numbers) (int, error) {
//		return in.A + in.B, nil
//	})
//	result := r.Run(ctx, toolroom.Call{Tool: "math:add", Arguments: room.Args{"a": 1, "b": 2}.JSON()})
//
// Start with [Open], [Register] and [Room.Run]; then [Room.Search],
// [Room.Stream], [Room.Chain] and [Room.Batch].
package room

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/receipt/linelog"
	"github.com/toolroom/toolroom/internal/receipt/otlp"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/sandbox"
)

// Types of the parts, under the names that programs use.
type (
	// Step is one call of a chain.
	Step = run.Step
	// ChainResult is the outcome of a chain.
	ChainResult = run.ChainResult
	// Job is an asynchronous call.
	Job = run.Job
	// SearchOptions and Found are the question and the answer of a search.
	SearchOptions = catalog.SearchOptions
	Found         = catalog.Found
	// ListOptions and Page are those of a list of tools.
	ListOptions = catalog.ListOptions
	Page        = catalog.Page
	// Level, Form and Description are those of a description.
	Level       = catalog.Level
	Form        = catalog.Form
	Description = catalog.Description
)

// Options say how to open a room. The zero value is a room of its own in a
// temporary folder, without sources, that permits everything.
type Options struct {
	// Home is the folder of all state; it is made when missing. Empty is a
	// temporary folder that Close removes.
	Home string
	// ConfigFile is the toolroom.yaml to read; empty reads none.
	ConfigFile string
	// Environ is what child processes may inherit from, as os.Environ gives it;
	// nil is the environment of this process. Children get little of it.
	Environ []string
	// Log receives warnings and errors; nil discards them.
	Log *slog.Logger
	// Helper is the path of a binary that calls [RunHelper], most often that of
	// this program (os.Executable). Without it there is neither JavaScript nor
	// a sandbox of our own.
	Helper string
	// Guest runs programs inside sandboxes, Helper if it is empty; Drivers
	// makes those drivers that start them in engines from outside; nil makes
	// none. The drivers process and host are always there.
	Guest   Guest
	Drivers func(Runtimes) []sandbox.Driver
	// Workflows makes what carries programs and chains over restarts, where the
	// config names it; nil makes nothing.
	Workflows func(WorkflowOptions) Workflows
	// Receipts takes a line for each call where the config says that receipts
	// are logged to stdout; nil takes none.
	Receipts io.Writer
	// Version is told to MCP servers and clients.
	Version string
}

// Room is an open room. Its methods are safe for concurrent use.
type Room struct {
	o      Options
	home   string
	isTemp bool
	log    *slog.Logger
	owner  string

	store     *sqlite.Store
	recorder  *receipt.Recorder
	lines     *linelog.Log
	collector *otlp.Exporter
	desk      *approval.Desk
	artifacts *artifact.Store
	sessions  *session.Store
	secrets   *secret.Store
	keeper    *secret.Keeper
	masker    *secret.Masker
	catalog   *catalog.Catalog
	library   library.Library
	policy    policySwitch
	held      heldBack
	trust     atomic.Pointer[trustRules]
	runner    *run.Runner
	worker    *run.Worker
	funcs     *gofunc.Source
	drivers   []sandbox.Driver
	engines   []engine.Engine
	workflows Workflows
	code      *code.Service

	reloading sync.Mutex // one change of the config, or of its policy, at a time

	mu     sync.Mutex
	config *config.Config
	hosts  map[string]*host

	background sync.WaitGroup
	stop       context.CancelFunc
}

// Open opens a room. It starts no source: each starts at its first use, or with
// [Room.Start]. Several processes may have the same home open.
func Open(ctx context.Context, o Options) (_ *Room, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	r := &Room{o: o, log: o.Log, hosts: map[string]*host{}, owner: proc.Owner()}
	r.policy.held = &r.held
	r.trust.Store(&trustRules{})
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.config, err = readConfig(o.ConfigFile); err != nil {
		return nil, err
	}
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
	return r, r.apply(r.config)
}

func readConfig(path string) (*config.Config, error) {
	if path == "" {
		return config.Default(), nil
	}
	return config.Load(path)
}

func (r *Room) openHome() error {
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
		return toolroom.Errorf(toolroom.CodeInternal, "the home folder cannot be made: %w", err).
			WithHint("choose another with --home")
	}
	return nil
}

func (r *Room) openParts(ctx context.Context) error {
	path, err := storePath(r.home, r.config.Store.URL)
	if err != nil {
		return err
	}
	if r.store, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		return err
	}
	key, err := r.secretsKey(ctx, r.config.Secrets.Key)
	if err != nil {
		return err
	}
	if r.secrets, err = secret.Open(r.home, secret.Options{Key: key}); err != nil {
		return err
	}
	r.masker = r.secrets.Masker()
	r.log = slog.New(r.masker.Handler(r.log.Handler()))
	r.keeper = secret.NewKeeper(r.secrets, r.keeperOptions(r.config.Secrets))
	if err := r.openRecorder(); err != nil {
		return err
	}
	links, err := r.sealKey("links")
	if err != nil {
		return err
	}
	r.desk = approval.NewDesk(r.store, approval.DeskOptions{
		TTL: r.config.Approvals.TTL, SessionTTL: r.config.Approvals.Session, Terms: r.approvalTerms, Key: links,
	})
	if r.artifacts, err = artifact.Open(ctx, filepath.Join(r.home, "artifacts"), r.store, artifact.Options{
		Results: artifactLimits(r.config.Results), Files: artifactLimits(r.config.Artifacts),
	}); err != nil {
		return err
	}
	if r.sessions, err = session.Open(filepath.Join(r.home, "sessions"), session.Options{Limits: sessionLimits(r.config.Code.Sessions)}); err != nil {
		return err
	}
	r.catalog = catalog.New(catalog.Options{})
	r.runner = run.New(run.Options{
		Catalog:    r.catalog,
		Policy:     &r.policy,
		Receipts:   r.recorder,
		Artifacts:  results{r.artifacts},
		Desk:       r.desk,
		Keys:       r.store,
		Jobs:       r.store,
		Limits:     runLimits(r.config.Limits),
		Discover:   r.discover,
		Preview:    r.preview,
		MustRecord: r.mustRecord,
		Home:       r.userHome(),
		Secrets:    r.masker,
		Trust:      func(t *toolroom.Tool) run.Trust { return r.trust.Load().of(t) },
		Taints:     r.store,
		Spending:   r.spending(),
		Owner:      r.owner,
		OwnerAlive: proc.Alive,
		Log:        r.log,
	})
	r.worker = run.NewWorker(r.runner, run.WorkerOptions{})
	return nil
}

// storePath reads the store's URL: sqlite:PATH, relative to the home.
func storePath(home, url string) (string, error) {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "store.url: this build keeps its state in SQLite only, not in %q", schemeOf(url)).
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

// results lets the runner keep long results in the artifact store.
type results struct{ store *artifact.Store }

// PutResult keeps a whole result.
func (s results) PutResult(ctx context.Context, owner, name, mimeType string, data io.Reader) (toolroom.Artifact, error) {
	return s.store.Put(ctx, owner, artifact.Result, name, mimeType, data)
}

func (r *Room) lookupEnv(name string) (string, bool) {
	for _, entry := range r.o.Environ {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}

// Close ends every source and engine, waits for what runs, and writes what is not yet
// written. It is idempotent.
func (r *Room) Close() error {
	var errs []error
	if r.stop != nil {
		r.stop()
	}
	r.background.Wait()
	r.mu.Lock()
	hosts := r.hosts
	r.hosts = map[string]*host{}
	r.mu.Unlock()
	var wg sync.WaitGroup
	for _, h := range hosts {
		wg.Go(func() { h.Close() })
	}
	ended := make([]error, len(r.engines))
	for i, e := range r.engines {
		wg.Go(func() { ended[i] = e.Close() })
	}
	wg.Wait()
	r.engines = nil
	errs = append(errs, ended...)
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

// closeTimeout bounds how long Close waits for a disk that is full or locked.
const closeTimeout = 10 * time.Second

// Args are arguments written as a Go map.
type Args map[string]any

// JSON encodes the arguments. It panics on what JSON has no form for, such as a
// channel: that is a mistake in the program's text.
func (a Args) JSON() json.RawMessage {
	data, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("room.Args: %v", err))
	}
	return data
}

// Run runs one call to its end and always returns a result. When the tool is
// not known yet, the sources that may have it are listed first.
func (r *Room) Run(ctx context.Context, call toolroom.Call) *toolroom.Result {
	return r.runner.Run(ctx, call)
}

// Stream runs one call and yields its events; the last one carries the result.
// Leaving the loop cancels the call.
func (r *Room) Stream(ctx context.Context, call toolroom.Call) iter.Seq[toolroom.Event] {
	return r.runner.Stream(ctx, call)
}

// Chain runs steps one after the other, as the caller that as names.
func (r *Room) Chain(ctx context.Context, as toolroom.Call, steps []Step) *ChainResult {
	if as.Surface == "" {
		as.Surface = "chain"
	}
	return r.runner.Chain(ctx, as, steps)
}

// Batch runs calls in parallel and returns their results in order.
func (r *Room) Batch(ctx context.Context, calls []toolroom.Call, parallel int) []*toolroom.Result {
	return r.runner.Batch(ctx, calls, parallel)
}

// Submit accepts a call to be run in the background and returns once it is
// durable. It needs [Room.Start] in some process on the same home.
func (r *Room) Submit(ctx context.Context, call toolroom.Call) (*Job, error) {
	job, err := r.runner.Submit(ctx, call)
	if err == nil {
		r.worker.Wake()
	}
	return job, err
}

// Search ranks the tools that who may call.
func (r *Room) Search(who toolroom.Identity, query string, o SearchOptions) Found {
	o.Visible = r.runner.Visible(who)
	return r.catalog.Search(query, o)
}

// Tools lists the tools that who may call.
func (r *Room) Tools(who toolroom.Identity, o ListOptions) (Page, error) {
	o.Visible = r.runner.Visible(who)
	return r.catalog.List(o)
}

// Describe tells of one tool that who may call.
func (r *Room) Describe(ctx context.Context, who toolroom.Identity, spelling string, level Level, form Form) (*Description, error) {
	unlisted := r.find(ctx, spelling)
	visible := r.runner.Visible(who)
	e, err := r.catalog.Resolve(spelling, visible)
	if err != nil {
		return nil, cmp.Or(unlisted, err)
	}
	if decision := r.policy.Decide(ctx, policy.Request{Tool: &e.Tool, Who: who}); decision.Effect == policy.Deny {
		denied := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s", who, e.Tool.ID, decision.Rule)
		return nil, denied.WithHint("%s", decision.Hint)
	}
	return r.catalog.Describe(ctx, e, level, form)
}

// find makes sure that the sources which may have a tool are listed.
func (r *Room) find(ctx context.Context, spelling string) error {
	if _, err := r.catalog.Resolve(spelling, nil); toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		return r.discover(ctx, spelling)
	}
	return nil
}

// discover lists the sources that may have a tool which is not known: the ones
// that its spelling names, else all that have never been listed. The error is
// why a named source cannot be listed.
func (r *Room) discover(ctx context.Context, spelling string) error {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return nil // the resolver says what is wrong with it
	}
	var named []string
	for _, id := range readings {
		if r.host(id.Namespace) != nil {
			named = append(named, id.Namespace)
		}
	}
	if len(named) == 0 {
		// That one of all fails says nothing about this tool.
		_ = r.Load(ctx)
		return nil
	}
	return r.each(named, func(h *host) error { return h.relist(ctx) })
}

// policySwitch is the decider in force; a reload changes it between calls.
type policySwitch struct {
	current atomic.Pointer[inForce]
	held    *heldBack
}

// inForce is what one config asks for.
type inForce struct {
	policy *policy.Policy
	grants grants
}

// Decide asks the policy in force, then the grants of the secrets that the call
// would use, then what is held back.
func (s *policySwitch) Decide(ctx context.Context, r policy.Request) policy.Decision {
	now := s.current.Load()
	return s.held.narrow(now.grants.narrow(now.policy.Decide(ctx, r), r), r)
}

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/source/function"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// functionProvider is the provider name of released functions in the catalog.
const functionProvider = "functions"

// functionNamespace is the namespace of functions that do not name one.
const functionNamespace = "fn"

// functionEngines are the engines that run functions, in the order of preference. Each
// starts every program in a separate process or instance.
var functionEngines = []string{"py-native", "process", "py"}

// servedVersions keeps the tool versions that this room serves. It implements
// [run.Releases].
type servedVersions struct {
	room  *App
	table atomic.Pointer[release.Table]

	applyMu sync.Mutex
	applied *release.Table
	shown   map[string]shownVersion // of the functions in the catalog, by tool

	mu      sync.Mutex
	entries map[release.Choice]*catalog.Entry
}

// shownVersion is the version of a function that the catalog shows: that of prod, or that
// of another environment if prod serves none.
type shownVersion struct {
	version int
	notProd bool
}

// openReleases creates the release service, and shows the functions that prod serves.
func (a *App) openReleases(ctx context.Context) error {
	a.releases = release.New(release.Options{
		Store:   a.store,
		Inspect: a.inspectUpload,
		Check:   a.checkFunctionID,
		Run:     a.runRefreshed,
		Past:    a.pastArguments,
		Fake:    run.WithFakes,
		Observe: a.observe, Record: a.recordRelease,
		Offered: a.offeredNow, Look: a.listSource, CaseOf: a.caseFromCall,
		Changed: a.servedVersions.refresh,
		Rules:   a.releaseRules,
	})
	a.runner.Releases = a.servedVersions
	a.versionWatcher = newWatching(a)
	if err := a.openProposals(); err != nil {
		return err
	}
	return a.servedVersions.refresh(ctx)
}

// runRefreshed runs a call after reading the releases, if another process has changed them:
// toolroom tool push may just have stored the version beside a server.
func (a *App) runRefreshed(ctx context.Context, call toolroom.Call) *toolroom.Result {
	a.servedVersions.catchUp(ctx)
	return a.runner.Run(ctx, call)
}

func (a *App) releaseRules() release.Rules {
	c := a.Config().Releases
	return release.Rules{
		Environments: c.Environments, Demoted: release.Status(c.Conflict),
		Cases: *c.Gates.Cases, Compatible: *c.Gates.Compatible, SecondPerson: c.Gates.SecondPerson,
		Automatic: *c.Rollback.Automatic, Confidence: c.Rollback.Confidence, Slower: c.Rollback.Slower, Watched: c.Rollback.For,
	}
}

// CheckEnvironment returns an error if callers may not choose the environment name.
func (a *App) CheckEnvironment(name string) error {
	if all := a.releases.Environments(); name != "" && !slices.Contains(all, name) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no environment %q: there are %s", name, strings.Join(all, ", ")).
			WithHint("add it to releases.environments in toolroom.yaml")
	}
	return nil
}

// checkFunctionID returns an error if another tool has the id.
func (a *App) checkFunctionID(id toolroom.ID) error {
	if err := reserved.Check(id.Namespace); err != nil {
		return err
	}
	if a.manager(id.Namespace) != nil {
		return toolroom.Errorf(toolroom.CodeConflict, "%s is a source of the config, so no function can be %s", id.Namespace, id).
			WithHint("choose another namespace, with --namespace or in the header")
	}
	if e, err := a.catalog.Resolve(id.String(), nil); err == nil && e.Provider != functionProvider && e.Tool.ID.Unversioned() == id {
		return toolroom.Errorf(toolroom.CodeConflict, "there is another tool %s, from %s", id, e.Provider).
			WithHint("choose another name or namespace")
	}
	return nil
}

// pastArguments returns the recorded arguments of a tool's calls that succeeded.
func (a *App) pastArguments(ctx context.Context, tool string, since time.Time) (map[string][]json.RawMessage, error) {
	list, err := a.Receipts(ctx, toolroom.ReceiptQuery{Tool: tool, Since: since, Status: toolroom.StatusOK, Limit: receipt.MaxLimit})
	if err != nil {
		return nil, err
	}
	past := map[string][]json.RawMessage{}
	for _, one := range list {
		if !receipt.OutsideMetrics(one.Surface) && len(one.Arguments) > 0 {
			who := one.Identity.String()
			past[who] = append(past[who], one.Arguments)
		}
	}
	return past, nil
}

// refresh reads the releases and updates the catalog.
func (s *servedVersions) refresh(ctx context.Context) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	before := s.applied
	if err := s.load(ctx); err != nil {
		return err
	}
	table := s.table.Load()
	s.applied = table
	serving := map[string]int{}
	kept := map[string]bool{}
	var problems []error
	show := func(c release.Choice, elsewhere bool, register func(string, source.Source, toolroom.Tool) error) {
		kept[c.Tool] = true
		if s.shown[c.Tool] == (shownVersion{c.Version, elsewhere}) {
			return
		}
		entry, err := s.entry(ctx, c)
		if err == nil {
			err = register(functionProvider, entry.Source, entry.Tool)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("version %d of %s: %w", c.Version, c.Tool, err))
			return
		}
		s.shown[c.Tool] = shownVersion{c.Version, elsewhere}
	}
	for _, c := range table.Serving() {
		serving[c.Tool] = c.Version
		if table.Source(c.Tool) == "" {
			show(c, false, s.room.catalog.Register)
		}
	}
	for _, c := range table.ServedOutsideProd() {
		show(c, true, s.room.catalog.RegisterOutsideProd)
	}
	var variants []*catalog.Entry
	for c := range table.Served() {
		if s.shown[c.Tool].version == c.Version {
			continue
		}
		e, err := s.entry(ctx, c)
		if err != nil {
			problems = append(problems, fmt.Errorf("version %d of %s: %w", c.Version, c.Tool, err))
			continue
		}
		variants = append(variants, e)
	}
	s.room.catalog.SetVariants(variants)
	for tool := range s.shown {
		if !kept[tool] {
			delete(s.shown, tool)
			if id, err := toolroom.ParseID(tool); err == nil {
				s.room.catalog.Unregister(functionProvider, id)
			}
		}
	}
	s.closeUnserved(table)
	if before != nil {
		for _, tool := range table.Changed(before) { // a canary, or an environment that the catalog does not show
			if id, err := toolroom.ParseID(tool); err == nil {
				s.room.catalog.Announce(id)
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		s.room.log.Warn("some released tools cannot be served", "error", err)
	}
	s.room.readmit(serving)
	return nil
}

// closeUnserved removes the versions that no environment serves, and ends their idle
// processes.
func (s *servedVersions) closeUnserved(table *release.Table) {
	served := table.Served()
	kept, gone := map[string]bool{}, map[string]engine.Layer{}
	s.mu.Lock()
	for c, e := range s.entries {
		if served[c] {
			kept[e.Tool.Release.Layer] = true
		}
	}
	for c, e := range s.entries {
		if served[c] {
			continue
		}
		delete(s.entries, c)
		if layer := e.Tool.Release.Layer; layer != "" && !kept[layer] {
			gone[layer] = s.room.Layer(&release.Spec{Layer: layer})
		}
	}
	s.mu.Unlock()
	for _, one := range s.room.engines {
		if r, ok := one.(engine.Retirer); ok {
			for _, layer := range gone {
				r.Retire(layer)
			}
		}
	}
}

// load reads the releases, unless newer ones have been read meanwhile.
func (s *servedVersions) load(ctx context.Context) error {
	table, err := release.Load(ctx, s.room.store)
	if err != nil {
		return err
	}
	for before := s.table.Load(); before == nil || before.Revision <= table.Revision; before = s.table.Load() {
		if s.table.CompareAndSwap(before, table) {
			break
		}
	}
	return nil
}

// releasePeriod is how often a server looks for releases by other processes.
const releasePeriod = 300 * time.Millisecond

func (s *servedVersions) follow(ctx context.Context) {
	every(ctx, releasePeriod, func() {
		panics.Log(s.room.log, "reading releases", func() { s.catchUp(ctx) })
	})
}

// catchUp reads the releases if another process has changed them.
func (s *servedVersions) catchUp(ctx context.Context) {
	revision, err := s.room.store.ReleaseRevision(ctx)
	s.applyMu.Lock()
	shown := s.applied // the table may be newer: a source that has changed loads it, and shows nothing
	s.applyMu.Unlock()
	if err == nil && revision != shown.Revision {
		err = s.refresh(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.room.log.Warn("cannot read the releases", "error", err)
	}
}

// Snapshot implements [run.Releases].
func (s *servedVersions) Snapshot() run.ReleaseSnapshot { return &snapshot{s, s.table.Load()} }

// snapshot is the state of the releases at one time.
type snapshot struct {
	*servedVersions
	releases *release.Table
}

// Serve implements [run.ReleaseSnapshot].
func (s *snapshot) Serve(call *toolroom.Call, found *catalog.Entry) (*catalog.Entry, error) {
	if found != nil && found.Provider != functionProvider {
		return nil, nil
	}
	choice, known, err := s.releases.Choose(call.Tool, call.Environment, call.Identity)
	if !known || err != nil {
		return nil, err
	}
	if s.releases.Source(choice.Tool) != "" {
		return s.room.entryForVersion(context.Background(), choice, call)
	}
	return s.entry(context.Background(), choice)
}

// CheckUnchanged implements [run.ReleaseSnapshot]. It accepts a change that only adds to
// the definition, and any change of a source whose changes are released automatically.
func (s *snapshot) CheckUnchanged(found *catalog.Entry) error {
	tool := found.Tool.ID.Unversioned().String()
	began, now := s.releases.InProd(tool), s.table.Load().InProd(tool)
	if began == 0 || now == 0 || began == now || s.releases.Source(tool) == "" || found.Provider == functionProvider {
		return nil
	}
	if m := s.room.manager(found.Tool.ID.Namespace); m == nil || m.quarantined == nil {
		return nil
	}
	ctx := context.Background()
	before, err := s.room.store.Version(ctx, tool, began)
	if err != nil {
		return err
	}
	after, err := s.room.store.Version(ctx, tool, now)
	if err != nil {
		return err
	}
	if release.Additive(&before.Spec, &after.Spec) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeConflict, "%s is version %d since a release during this call, which began with version %d; %s offers that no longer", tool, now, began, found.Tool.ID.Namespace).
		WithHint("make the whole call again: it begins with the released version")
}

// entry returns the catalog entry of a version.
func (s *servedVersions) entry(ctx context.Context, c release.Choice) (*catalog.Entry, error) {
	s.mu.Lock()
	e := s.entries[c]
	s.mu.Unlock()
	if e != nil {
		return e, nil
	}
	v, err := s.room.store.Version(ctx, c.Tool, c.Version)
	if err != nil {
		return nil, err
	}
	tool, err := versionTool(v)
	if err != nil {
		return nil, err
	}
	src, err := s.room.newFunctionSource(&v.Spec, tool)
	if err != nil {
		return nil, err
	}
	if e, err = s.room.catalog.NewEntry(functionProvider, src, tool); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.entries[c]; first != nil {
		return first, nil
	}
	s.entries[c] = e
	return e, nil
}

// versionTool returns the tool that a version defines.
func versionTool(v *release.Version) (toolroom.Tool, error) {
	id, err := toolroom.ParseID(v.Tool)
	if err != nil {
		return toolroom.Tool{}, err
	}
	spec := &v.Spec
	tool := toolroom.Tool{
		ID: id, Title: spec.Title, Description: spec.Description, InputSchema: spec.InputSchema, OutputSchema: spec.OutputSchema,
		Tags: spec.Tags, Source: toolroom.SourceKind(spec.Language), Release: v.Identity(),
	}
	switch spec.Language {
	case "typescript":
		tool.Source = toolroom.SourceJavaScript
	case function.Script:
		tool.Source = toolroom.SourceScript
	}
	yes, no := true, false
	if spec.ReadOnly {
		tool.Hints.ReadOnly = &yes
	}
	switch {
	case len(spec.Egress) > 0:
		tool.Effects = code.NetworkEffects(spec.Egress)
		tool.Hints.OpenWorld = &yes
		if !spec.ReadOnly {
			tool.Hints.Destructive = &yes
		}
	case spec.Plan.Context == "" && isJavaScript(spec), spec.Plan.Context == "" && spec.Language == "python":
		// It can neither connect nor call tools, and its sandbox is removed after the call.
		tool.Hints.OpenWorld, tool.Hints.Destructive = &no, &no
	}
	if spec.Limits.TimeoutMS > 0 {
		// A process must be started as well.
		tool.Timeout = time.Duration(spec.Limits.TimeoutMS)*time.Millisecond + startAllowance
		tool.DefaultTimeout = tool.Timeout
	}
	return tool, nil
}

const startAllowance = 10 * time.Second

// newFunctionSource returns the source that runs a version; tool is its definition.
func (a *App) newFunctionSource(spec *release.Spec, tool toolroom.Tool) (source.Source, error) {
	plan, err := json.Marshal(spec.Plan)
	if err != nil {
		return nil, err
	}
	d := function.Definition{
		Tool: tool, Code: function.Code{Files: spec.Files, File: spec.File, Language: spec.Language}, Entry: spec.Entry,
		Plan: plan, Async: spec.Plan.Async, Context: spec.Plan.Context != "", Secrets: spec.Secrets, Config: spec.Config, Output: spec.Plan.Output,
		Packages: a.packagesOf(spec),
	}
	program := code.Function{
		Request: code.Request{Program: toolroom.Program{
			Language: spec.Language, Engine: spec.Engine, Profile: spec.Profile, Egress: spec.Egress,
			TimeoutMS: spec.Limits.TimeoutMS, CPUMS: spec.Limits.CPUMS, MemoryBytes: spec.Limits.MemoryBytes, MaxCalls: spec.Limits.Calls,
		}},
		Layer: a.Layer(spec), Engines: enginesFor(spec), StartAhead: spec.Node, Tools: spec.Plan.Context != "",
	}
	if isJavaScript(spec) {
		program.Layer.Preload = nil // the bundle tells
		if !spec.Node {
			program.Layer = engine.Layer{} // the bundle has all packages
		}
	}
	return function.New(d, function.Options{
		Run: func(ctx context.Context, req *source.Request, p function.Program) (*source.Output, error) {
			if a.code == nil {
				return nil, toolroom.Errorf(toolroom.CodeUnsupported, "functions cannot run here: code is disabled in the config")
			}
			f := program
			f.Language, f.Code, f.Name, f.Lines, f.Given = p.Language, p.Source, p.Name, p.AuthorLines, p.Inputs
			f.MapPosition, f.Bundled = p.MapPosition, p.Bundled
			f.Layer.Preload = append(f.Layer.Preload, p.Preload...)
			f.Command, f.Env, f.Stdin, f.Files, f.Module, f.Output = p.Command, p.Env, p.Stdin, p.Files, p.Module, p.Output
			return a.code.RunFunction(ctx, req, f)
		},
		Ready: func(ctx context.Context) error { return a.ensureLayer(ctx, spec) },
		Isolation: func(ctx context.Context, req *source.Request) string {
			if a.code == nil {
				return ""
			}
			return a.code.FunctionIsolation(ctx, req, program)
		},
		Resolve: func(ctx context.Context, ref string) (string, error) {
			return secretref.New(a.resolver.Resolve).Expand(ctx, ref)
		},
	}), nil
}

// enginesFor returns the engines that can run a version, in the order of preference.
func enginesFor(spec *release.Spec) []string {
	switch {
	case spec.Language == "wasm":
		return []string{"wasm"}
	case spec.Language == function.Script:
		return []string{"process"}
	case isJavaScript(spec) && (spec.Node || len(spec.Egress) > 0):
		return []string{"process"}
	case isJavaScript(spec):
		return []string{"js", "process"}
	case spec.Layer != "":
		return functionEngines[:1] // only it can show packages to a program
	case len(spec.Egress) > 0:
		return []string{"process"}
	}
	return functionEngines
}

// inspectUpload returns the tools in an upload.
func (a *App) inspectUpload(ctx context.Context, u release.Upload) ([]release.Found, error) {
	c, err := function.Read(u.Files, u.File)
	if err != nil {
		return nil, err
	}
	base := release.Spec{
		Language: c.Language, Files: c.Files, File: c.File, Engine: c.Manifest.Engine, Profile: c.Manifest.Profile, Tags: c.Manifest.Tags, ReadOnly: c.Manifest.ReadOnly,
		Egress: c.Manifest.Egress, Limits: release.Limits(c.Manifest.Limits), Config: function.Encode(c.Manifest.Config), Requires: c.Manifest.Dependencies,
	}
	if p := sandbox.Profile(base.Profile); p != "" && p != sandbox.Standard && p != sandbox.Hardened {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the profile of a function is %s or %s, not %q", c.File, sandbox.Standard, sandbox.Hardened, p).
			WithHint("name the hosts that it reaches in egress")
	}
	for _, name := range c.Manifest.Secrets {
		if !strings.Contains(name, "://") {
			name = "secret://" + name
		}
		if _, err := secret.ParseRef(name); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the secret %q is not of the form scope/name", c.File, strings.TrimPrefix(name, "secret://")).WithHint("write it like github/token")
		}
		base.Secrets = append(base.Secrets, name)
	}
	if err := egress.CheckRules(base.Egress); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: egress%v", c.File, err).WithHint("name hosts, such as example.com, example.com:8443 or *.example.com")
	}
	if l := base.Limits; min(l.TimeoutMS, l.CPUMS, l.MemoryBytes, int64(l.Calls)) < 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: a limit is negative", c.File).WithHint("leave it out for the default")
	}
	if base.Language != "python" && !isJavaScript(&base) && len(base.Requires) > 0 {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "%s: functions in %s cannot have packages here", c.File, base.Language).
			WithHint("remove dependencies, or write the function in Python, JavaScript or TypeScript")
	}
	if base.Lock = c.Lock; isJavaScript(&base) {
		err = a.resolvePackages(ctx, &base, u.Tarballs)
	} else {
		err = a.resolveDependencies(ctx, &base, u.Wheels)
	}
	if err != nil {
		return nil, err
	}
	var isolated sandbox.Spec
	if a.code != nil {
		if isolated, err = a.code.ProfileSpec(""); err != nil {
			return nil, err
		}
	}
	offline := base
	offline.Egress = nil // an inspection has no network
	tools, imports, err := function.Inspect(ctx, a.enginesNamed(enginesFor(&offline)), isolated, c, a.Layer(&base))
	if err != nil {
		return nil, err
	}
	if base.Layer != "" && base.Language == "python" {
		base.Preload = imports
	}
	return foundTools(base, c, tools, cmp.Or(u.Namespace, c.Manifest.Namespace, functionNamespace))
}

// foundTools returns the specs of the tools in an upload, with their cases.
func foundTools(base release.Spec, c *function.Code, tools []function.Inspected, namespace string) ([]release.Found, error) {
	var out []release.Found
	names := map[string]int{}
	for _, t := range tools {
		if string(t.Output) == "null" {
			t.Output = nil
		}
		if err := c.Manifest.Apply(&t); err != nil {
			return nil, err
		}
		if err := t.CheckSchemas(c.File); err != nil {
			return nil, err
		}
		spec := base
		spec.Entry, spec.Title, spec.Description, spec.InputSchema, spec.OutputSchema = t.Entry, t.Title, t.Text, t.Input, t.Output
		if err := json.Unmarshal(t.Plan, &spec.Plan); err != nil {
			return nil, err
		}
		spec.Plan.Output = c.Manifest.Output
		if isJavaScript(&spec) {
			spec.Node, spec.Preload = t.Node, t.Preload
		}
		if line, taken := names[t.Name]; taken {
			return nil, toolroom.Errorf(toolroom.CodeConflict, "%s:%d: two functions are the tool %q; the other is in line %d", c.File, t.Line, t.Name, line).
				WithHint("give one of them another name, in the code or under tools in tool.yaml")
		}
		names[t.Name] = t.Line
		id := toolroom.ID{Namespace: namespace, Name: t.Name}
		if err := id.Validate(); err != nil {
			return nil, err
		}
		out = append(out, release.Found{ID: id, Spec: spec, Cases: manifestCases(c.Manifest.Cases, t.Name, len(tools) == 1)})
	}
	return out, nil
}

func manifestCases(all []function.ManifestCase, tool string, only bool) []*release.Case {
	var out []*release.Case
	for _, m := range all {
		if m.Tool == tool || m.Tool == "" && only {
			c := &release.Case{
				Name: m.Name, Arguments: function.Encode(m.Arguments), Expect: function.Encode(m.Expect), Assert: m.Assert, Error: toolroom.Code(m.Error),
			}
			if m.Schema != nil {
				c.Schema = function.Encode(m.Schema)
			}
			if m.Arguments == nil {
				c.Arguments = nil
			}
			out = append(out, c)
		}
	}
	return out
}

// Engine returns the engine with a name, or nil. A program that is run on it directly is
// not subject to policy and leaves no receipt.
func (a *App) Engine(name string) engine.Engine {
	if found := a.enginesNamed([]string{name}); len(found) > 0 {
		return found[0]
	}
	return nil
}

func (a *App) enginesNamed(names []string) []engine.Engine {
	var out []engine.Engine
	for _, name := range names {
		for _, e := range a.engines {
			if e.Name() == name {
				out = append(out, e)
			}
		}
	}
	return out
}

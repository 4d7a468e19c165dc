package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/source/openapi"
	"github.com/toolroom/toolroom/source"
)

// SourceTest is the result of testing a source.
type SourceTest struct {
	source.Status
	// Took is the time to start the source and list its tools.
	Took time.Duration `json:"took_ns"`
	// Quarantined is the number of quarantined tools. Findings are hidden texts in the
	// definitions, and names of other sources.
	Quarantined int               `json:"quarantined,omitempty"`
	Findings    []catalog.Finding `json:"findings,omitempty"`
	// Problems lists why calls of some tools will fail: invalid schemas, missing credentials.
	Problems []string `json:"problems,omitempty"`
	// LeftOut names the tools that the source offers and Toolroom does not have, with the
	// reasons.
	LeftOut []string `json:"left_out,omitempty"`
}

// Sources returns the status of all configured sources, sorted by name.
func (a *App) Sources() []source.Status {
	counts := a.catalog.Namespaces(nil)
	var out []source.Status
	for _, h := range a.allManagers() {
		s := a.status(h)
		s.Tools = counts[h.name]
		out = append(out, s)
	}
	return out
}

// status returns a source's status. Known secrets are redacted in its program's output.
func (a *App) status(h *sourceManager) source.Status {
	s := h.status()
	if configured, ok := a.Config().Sources[h.name]; ok {
		s.Sandbox = configured.SandboxText()
	}
	s.Output = a.redactor.Text(s.Output)
	if s.Process != nil {
		s.Process.Stderr = a.redactor.Text(s.Process.Stderr)
	}
	return s
}

// TestSource starts a source, lists its tools and reports the result. The error is
// not_found if the source is not configured. If the source fails, the status has Error set.
func (a *App) TestSource(ctx context.Context, name string) (SourceTest, error) {
	h := a.manager(name)
	if h == nil {
		return SourceTest{}, a.SourceNotFound(name)
	}
	began := time.Now()
	err := h.list(ctx)
	test := SourceTest{Status: a.status(h), Took: time.Since(began)}
	test.Tools = a.catalog.Namespaces(nil)[name]
	test.Quarantined, test.Findings = a.definitions.count(name), a.findings(h, h.listedTools())
	test.LeftOut = h.leftOut()
	withoutCredentials := map[string]int{} // the number of tools, by what is to be done
	for _, e := range a.catalog.All(func(e *catalog.Entry) bool { return e.Provider == name }) {
		if err := e.CheckSchemas(); err != nil {
			test.Problems = append(test.Problems, e.ID+": "+err.Error())
		}
		if _, note, ok := strings.Cut(e.Tool.Notes, openapi.MissingCredentials); ok {
			next, _, _ := strings.Cut(note, "\n")
			withoutCredentials[next]++
		}
	}
	for _, next := range slices.Sorted(maps.Keys(withoutCredentials)) {
		test.Problems = append(test.Problems, fmt.Sprintf("%d of %d tools need credentials that are not configured: %s", withoutCredentials[next], test.Tools, next))
	}
	if err != nil && test.Error == "" {
		test.Error = err.Error()
	}
	return test, nil
}

// SourceNotFound returns the error about a source that does not exist, or is disabled.
func (a *App) SourceNotFound(name string) error {
	if s, ok := a.Config().Sources[name]; ok && s.Disabled {
		return toolroom.Errorf(toolroom.CodeNotFound, "source %q is disabled", name).WithCLIHint("turn it on: toolroom sources enable %s", name)
	}
	return toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
}

// Load waits until the named sources, or all of them, have been listed, now or in an
// earlier run. The error joins all failures; the other sources are loaded.
func (a *App) Load(ctx context.Context, names ...string) error {
	return a.eachManager(names, func(h *sourceManager) error { return h.load(ctx) })
}

// Outdated returns the sources whose tools come from an outdated list, with its time.
func (a *App) Outdated() map[string]time.Time {
	out := map[string]time.Time{}
	for _, m := range a.allManagers() {
		m.mu.Lock()
		if !m.outdated.IsZero() {
			out[m.name] = m.outdated
		}
		m.mu.Unlock()
	}
	return out
}

func (a *App) eachManager(names []string, do func(*sourceManager) error) error {
	managers := a.allManagers()
	if len(names) > 0 {
		managers = slices.DeleteFunc(managers, func(h *sourceManager) bool { return !slices.Contains(names, h.name) })
	}
	errs := make([]error, len(managers))
	var wg sync.WaitGroup
	for i, h := range managers {
		wg.Go(func() {
			if panicked := panics.Catch(func() { errs[i] = do(h) }); panicked != nil {
				errs[i] = toolroom.Errorf(toolroom.CodeInternal, "source %s failed: %w", h.name, panicked)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (a *App) manager(name string) *sourceManager {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.managers[name]
}

func (a *App) allManagers() []*sourceManager {
	a.mu.Lock()
	defer a.mu.Unlock()
	managers := make([]*sourceManager, 0, len(a.managers))
	for _, name := range slices.Sorted(maps.Keys(a.managers)) {
		managers = append(managers, a.managers[name])
	}
	return managers
}

// Reload applies a new config without dropping calls. Policy applies from the next call on,
// and new sources start at once. A removed or changed source finishes its calls first.
// Limits apply to the calls that begin from then on. Changed keys that count only after a
// restart are logged.
func (a *App) Reload(c *config.Config) error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	if err := a.apply(c); err != nil {
		return err
	}
	a.log.Info("config reloaded")
	if keys := a.NeedsRestart(c); len(keys) > 0 {
		a.log.Warn("some changes of the config count only after a restart", "keys", strings.Join(keys, ", "))
	}
	for _, u := range a.Unmatched() {
		a.log.Warn("a rule matches no tool", "rule", u.Key, "pattern", u.Pattern, "hint", u.Hint())
	}
	return nil
}

// ReloadFile reads the config file again and applies it, see [App.Reload].
func (a *App) ReloadFile() error {
	if a.o.ConfigFile == "" {
		return toolroom.Errorf(toolroom.CodeUnsupported, "the room was opened without a config file")
	}
	c, err := a.readConfig()
	if err != nil {
		return err
	}
	return a.Reload(c)
}

// NeedsRestart returns the keys of a config that differ from those that the app was opened
// with and count only after a restart.
func (a *App) NeedsRestart(c *config.Config) []string { return c.NeedsRestart(a.started) }

func errClosed() error { return toolroom.Errorf(toolroom.CodeUnsupported, "the room is closed") }

// apply makes c the current config. The caller holds reloadMu.
func (a *App) apply(c *config.Config) error {
	if a.closed {
		return errClosed()
	}
	stamp := stampOf(a.policyFiles(c))
	rules, err := a.compilePolicy(c)
	if err != nil {
		return err
	}
	grants, err := newGrants(c)
	if err != nil {
		return err
	}
	scopes, err := newScopes(a.started.Server, c.Tools)
	if err != nil {
		return err
	}
	trusted, err := newTrustRules(c)
	if err != nil {
		return err
	}
	guard, err := programGuard(c)
	if err != nil {
		return err
	}
	a.mu.Lock()
	old := a.managers
	a.mu.Unlock()
	built, err := a.buildManagers(c, old)
	if err != nil {
		return err
	}
	if err := a.applyBuiltins(c); err != nil {
		for name, h := range built {
			if h != old[name] {
				panics.Log(a.log, "closing source "+name, func() { _ = h.Close() })
			}
		}
		return err
	}
	a.trust.Store(trusted)
	a.resolver.Configure(a.resolverOptions(c.Secrets))
	a.policy.current.Store(&activePolicy{rules, grants, scopes})
	if a.code != nil {
		a.code.SetEgress(guard)
	}
	a.mu.Lock()
	before := a.config
	a.managers, a.config, a.policyStamp = built, c, stamp
	started := a.stop != nil
	a.mu.Unlock()
	if limits := runLimits(c); !reflect.DeepEqual(runLimits(before), limits) {
		a.runner.SetLimits(limits)
	}
	if err := a.applySearch(c); err != nil {
		a.log.Error("the embedder cannot be used", "error", err)
	}
	a.approvals.SetTTL(c.Approvals.TTL, c.Approvals.Session)
	// The new policy is in force, so the new tools may be called. No list of an old manager
	// may follow those of its successor.
	for name, h := range old {
		if built[name] == h {
			continue
		}
		h.retire()
		if built[name] == nil {
			a.catalog.RemoveProvider(name)
			a.library.Remove(name)
			a.definitions.remove(name)
		}
		a.background.Go(func() { h.Close() })
	}
	for name, h := range built {
		if old[name] == h {
			continue
		}
		h.publish()
		if started {
			h.listUntilSuccess()
		}
	}
	return nil
}

// RestartSource replaces a source of the config by a new one: its calls end first, and its
// program or connection starts anew. The error is not_found if the source is not
// configured.
func (a *App) RestartSource(name string) error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.manager(name)
	if old == nil || old.fromProgram {
		return toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
	}
	old.digest += " restarted" // so that it is not kept
	return a.apply(a.Config())
}

// buildManagers returns the managers of all sources of a config, by name: those of old whose
// configuration is the same, and new ones. If a source cannot be built, buildManagers closes
// the sources that it has built and changes nothing.
func (a *App) buildManagers(c *config.Config, old map[string]*sourceManager) (map[string]*sourceManager, error) {
	all, fresh := map[string]*sourceManager{}, map[string]*sourceManager{}
	for name, h := range old {
		if h.fromProgram {
			all[name] = h
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		h, err := a.buildManager(name, c, all[name], old[name])
		if err != nil {
			for name, h := range fresh {
				panics.Log(a.log, "closing source "+name, func() { _ = h.src.Close() })
			}
			return nil, err
		}
		if h == nil {
			continue
		}
		all[name] = h
		if h != old[name] {
			fresh[name] = h
		}
	}
	for _, h := range fresh { // each may change the catalog, so all must exist
		newManager(h)
	}
	return all, nil
}

// buildManager returns the manager of a configured source: the old one if it has the same
// configuration, else a new one, which is not yet completed by newManager. It returns nil
// for a disabled source. own is the source of that name that the Go program has added, or
// nil.
func (a *App) buildManager(name string, c *config.Config, own, old *sourceManager) (*sourceManager, error) {
	s := c.Sources[name]
	if s.Disabled {
		return nil, nil
	}
	if err := reserved.Check(name); err != nil {
		return nil, err
	}
	if own != nil {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "the program itself provides a source %q", name).
			WithHint("rename the one in the config")
	}
	digest, fixed := sourceDigest(s, c)+fmt.Sprint(c.DefinitionsOf(s), c.Quarantined(s)), a.protectedFilesStamp(s, c)
	if old != nil && old.digest == digest && old.protectedFiles == fixed {
		return old, nil
	}
	src, err := a.newSource(name, s, c)
	if err != nil {
		return nil, err
	}
	by := sourceTrust{c.DefinitionsOf(s), c.Quarantined(s), s.HTTP != nil}
	return &sourceManager{
		name: name, digest: digest, protectedFiles: fixed, src: src, catalog: a.catalog, cache: a.listCacheFor(name, digest+a.documentVersion(s)), redactor: a.redactor,
		admit: func(ctx context.Context, tools []toolroom.Tool) ([]toolroom.Tool, error) {
			return a.admit(ctx, name, by, tools)
		},
		quarantined: a.quarantineCheck(by), log: a.log, library: &a.library, plain: s.Names == "plain",
	}, nil
}

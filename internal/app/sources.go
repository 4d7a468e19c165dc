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
	"github.com/toolroom/toolroom/internal/poison"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/source"
)

// SourceTest is the result of testing a source.
type SourceTest struct {
	source.Status
	// Took is the time to start the source and list its tools.
	Took time.Duration `json:"took_ns"`
	// Quarantined is the number of quarantined tools, and Findings are texts of the
	// definitions that people do not see, and names of other sources.
	Quarantined int              `json:"held,omitempty"`
	Findings    []poison.Finding `json:"findings,omitempty"`
	// Problems lists invalid schemas: calls of their tools fail.
	Problems []string `json:"problems,omitempty"`
}

// Sources returns the status of all configured sources, sorted by name.
func (r *App) Sources() []source.Status {
	counts := r.catalog.Namespaces(nil)
	var out []source.Status
	for _, h := range r.allManagers() {
		s := r.status(h)
		s.Tools = counts[h.name]
		out = append(out, s)
	}
	c := r.Config()
	for name, s := range c.Sources {
		if s.Disabled {
			out = append(out, source.Status{Name: name, Kind: s.Kind(), State: StateDisabled, Sandbox: s.SandboxText(), Reason: "turn it on: toolroom sources enable " + name})
		}
	}
	slices.SortFunc(out, func(a, b source.Status) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// StateDisabled is the state of a source that the config has turned off.
const StateDisabled = "disabled"

// status returns a source's status. Known secrets are redacted in its program's output.
func (r *App) status(h *sourceManager) source.Status {
	s := h.status()
	if configured, ok := r.Config().Sources[h.name]; ok {
		s.Sandbox = configured.SandboxText()
	}
	s.Output = string(r.redactor.Redact([]byte(s.Output)))
	if s.Process != nil {
		s.Process.Stderr = string(r.redactor.Redact([]byte(s.Process.Stderr)))
	}
	return s
}

// TestSource starts a source, lists its tools and reports the result. The error is
// not_found if the source is not configured. If the source fails, the status has Error set.
func (r *App) TestSource(ctx context.Context, name string) (SourceTest, error) {
	h := r.manager(name)
	if h == nil {
		return SourceTest{}, r.NoSource(name)
	}
	began := time.Now()
	err := h.list(ctx)
	test := SourceTest{Status: r.status(h), Took: time.Since(began)}
	test.Tools = r.catalog.Namespaces(nil)[name]
	test.Quarantined, test.Findings = r.quarantined.count(name), r.look(name, h.listedTools())
	for _, e := range r.catalog.All(func(e *catalog.Entry) bool { return e.Provider == name }) {
		if err := e.CheckSchemas(); err != nil {
			test.Problems = append(test.Problems, e.ID+": "+err.Error())
		}
	}
	if err != nil && test.Error == "" {
		test.Error = err.Error()
	}
	return test, nil
}

// NoSource returns the error about a source that is not there, or is disabled.
func (r *App) NoSource(name string) error {
	if s, ok := r.Config().Sources[name]; ok && s.Disabled {
		return toolroom.Errorf(toolroom.CodeNotFound, "source %q is disabled", name).WithCLIHint("turn it on: toolroom sources enable %s", name)
	}
	return toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
}

// Load waits until the named sources, or all of them, have been listed, now or in an
// earlier run. The error joins all failures; the other sources are loaded.
func (r *App) Load(ctx context.Context, names ...string) error {
	return r.each(names, func(h *sourceManager) error { return h.load(ctx) })
}

func (r *App) each(names []string, do func(*sourceManager) error) error {
	managers := r.allManagers()
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

func (r *App) manager(name string) *sourceManager {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.managers[name]
}

func (r *App) allManagers() []*sourceManager {
	r.mu.Lock()
	defer r.mu.Unlock()
	managers := make([]*sourceManager, 0, len(r.managers))
	for _, name := range slices.Sorted(maps.Keys(r.managers)) {
		managers = append(managers, r.managers[name])
	}
	return managers
}

// Reload applies a new config without dropping calls. Policy applies from the next call on,
// and new sources start at once. A removed or changed source finishes its calls first.
// Limits apply to the calls that begin from then on. Changed keys that count only after a
// restart are logged.
func (r *App) Reload(c *config.Config) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if r.closed {
		return toolroom.Errorf(toolroom.CodeUnsupported, "the room is closed")
	}
	if err := r.apply(c); err != nil {
		return err
	}
	r.log.Info("config reloaded")
	if keys := r.NeedsRestart(c); len(keys) > 0 {
		r.log.Warn("some changes of the config count only after a restart", "keys", strings.Join(keys, ", "))
	}
	for _, u := range r.Unmatched() {
		r.log.Warn("a rule matches no tool", "rule", u.Key, "pattern", u.Pattern, "hint", u.Hint())
	}
	return nil
}

// NeedsRestart returns the keys of a config that differ from those that the app was opened
// with and count only after a restart.
func (r *App) NeedsRestart(c *config.Config) []string { return c.NeedsRestart(r.started) }

func (r *App) apply(c *config.Config) (err error) {
	rules, err := r.compilePolicy(c)
	if err != nil {
		return err
	}
	grants, err := newGrants(c)
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
	r.mu.Lock()
	old := r.managers
	r.mu.Unlock()
	built, err := r.buildManagers(c, old)
	if err != nil {
		return err
	}
	if err := r.applyBuiltins(c); err != nil {
		return err
	}
	r.trust.Store(trusted)
	r.resolver.Configure(r.resolverOptions(c.Secrets))
	r.policy.current.Store(&inForce{rules, grants})
	if r.code != nil {
		r.code.SetEgress(guard)
	}
	r.mu.Lock()
	before := r.config
	r.managers, r.config = built, c
	started := r.stop != nil
	r.mu.Unlock()
	if !reflect.DeepEqual(before.Limits, c.Limits) {
		r.runner.SetLimits(runLimits(c.Limits))
	}
	if err := r.applySearch(c); err != nil {
		r.log.Error("the embedder cannot be used", "error", err)
	}
	r.approvals.SetTTL(c.Approvals.TTL, c.Approvals.Session)
	// The new policy is in force, so the new tools may be called. No list of an old manager
	// may follow those of its successor.
	for name, h := range old {
		if built[name] == h {
			continue
		}
		h.retire()
		if built[name] == nil {
			r.catalog.RemoveProvider(name)
			r.library.Remove(name)
		}
		r.background.Go(func() { h.Close() })
	}
	for name, h := range built {
		if old[name] == h {
			continue
		}
		h.publish()
		if started {
			h.keepListed()
		}
	}
	return nil
}

// RestartSource replaces a source of the config by a new one: its calls end first, and its
// program or connection starts anew. The error is not_found if it is not configured.
func (r *App) RestartSource(name string) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	old := r.manager(name)
	if old == nil || old.own {
		return toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
	}
	old.digest += " restarted" // so that it is not kept
	return r.apply(r.Config())
}

// buildManagers returns the managers of all sources of a config, by name: those of old whose
// configuration is the same, and new ones. If a source cannot be built, buildManagers closes
// the sources that it has built and changes nothing.
func (r *App) buildManagers(c *config.Config, old map[string]*sourceManager) (map[string]*sourceManager, error) {
	all, fresh := map[string]*sourceManager{}, map[string]*sourceManager{}
	for name, h := range old {
		if h.own {
			all[name] = h
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		h, err := r.buildManager(name, c, all[name], old[name])
		if err != nil {
			for name, h := range fresh {
				panics.Log(r.log, "closing source "+name, func() { _ = h.src.Close() })
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
// for a disabled source. own is the program's own source of that name, or nil.
func (r *App) buildManager(name string, c *config.Config, own, old *sourceManager) (*sourceManager, error) {
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
	digest := sourceDigest(s, c) + fmt.Sprint(c.PinOf(s), c.Quarantined(s))
	if old != nil && old.digest == digest {
		return old, nil
	}
	src, err := r.newSource(name, s, c)
	if err != nil {
		return nil, err
	}
	by := trust{c.PinOf(s), c.Quarantined(s)}
	return &sourceManager{
		name: name, digest: digest, src: src, catalog: r.catalog, cache: r.cacheFor(name, digest), redactor: r.redactor,
		admit: r.gate(name, by), quarantined: r.quarantineOf(name, by), log: r.log, library: &r.library, plain: s.Names == "plain",
	}, nil
}

package room

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/poison"
	"github.com/toolroom/toolroom/source"
)

// SourceStatus says how a source is.
type SourceStatus struct {
	Name string              `json:"name"`
	Kind toolroom.SourceKind `json:"kind"`
	// State is a word for people: ready, idle, connecting, backing off, waiting
	// for authorisation, broken, draining, failing.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Listed says that the tools are known, from now or from an earlier run.
	Listed bool `json:"listed"`
	Tools  int  `json:"tools"`
	// Stale says that the tools are those of the last list that came, for the
	// last attempt failed.
	Stale bool `json:"stale,omitempty"`
	// Process is the program that runs for the source, nil for none.
	Process *source.Process `json:"process,omitempty"`
	// Error is why the last attempt to list the tools failed.
	Error string `json:"error,omitempty"`
}

// SourceTest is the outcome of trying a source.
type SourceTest struct {
	SourceStatus
	// Took is how long it took to start the source and list its tools.
	Took time.Duration `json:"took_ns"`
	// Held is how many tools wait for a person, and Findings what of the
	// definitions looks like an attack on models.
	Held     int              `json:"held,omitempty"`
	Findings []poison.Finding `json:"findings,omitempty"`
}

// Sources says how all configured sources are, in the order of their names.
func (r *Room) Sources() []SourceStatus {
	counts := r.catalog.Namespaces(nil)
	var out []SourceStatus
	for _, h := range r.allHosts() {
		s := r.status(h)
		s.Tools = counts[h.name]
		out = append(out, s)
	}
	return out
}

// status is how a source is, with no known secret in what its program wrote.
func (r *Room) status(h *host) SourceStatus {
	s := h.status()
	if s.Process != nil {
		s.Process.Stderr = string(r.masker.Mask([]byte(s.Process.Stderr)))
	}
	return s
}

// TestSource starts a source, lists its tools, and says how that went. The error
// is not_found for a name that is not configured; a source that fails is a
// status with Error set.
func (r *Room) TestSource(ctx context.Context, name string) (SourceTest, error) {
	h := r.host(name)
	if h == nil {
		e := toolroom.Errorf(toolroom.CodeNotFound, "there is no source %q", name)
		return SourceTest{}, e.WithHint("see what there is: toolroom sources list")
	}
	began := time.Now()
	err := h.list(ctx)
	test := SourceTest{SourceStatus: r.status(h), Took: time.Since(began)}
	test.Tools = r.catalog.Namespaces(nil)[name]
	test.Held, test.Findings = r.held.count(name), r.lint(name, h.listedTools())
	if err != nil && test.Error == "" {
		test.Error = err.Error()
	}
	return test, nil
}

// Load waits until the named sources, or all of them, have been listed, now or
// in an earlier run. The error joins what failed; the others are there.
func (r *Room) Load(ctx context.Context, names ...string) error {
	return r.each(names, func(h *host) error { return h.load(ctx) })
}

func (r *Room) each(names []string, do func(*host) error) error {
	hosts := r.allHosts()
	if len(names) > 0 {
		hosts = slices.DeleteFunc(hosts, func(h *host) bool { return !slices.Contains(names, h.name) })
	}
	errs := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { errs[i] = do(h) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (r *Room) host(name string) *host {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[name]
}

func (r *Room) allHosts() []*host {
	r.mu.Lock()
	defer r.mu.Unlock()
	hosts := make([]*host, 0, len(r.hosts))
	for _, name := range slices.Sorted(maps.Keys(r.hosts)) {
		hosts = append(hosts, r.hosts[name])
	}
	return hosts
}

// Reload puts a new config in force without dropping calls: policy from the
// next call on, new sources at once; a source that is gone or has changed
// finishes its calls first. Limits and the store stay until the next start.
func (r *Room) Reload(c *config.Config) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if err := r.apply(c); err != nil {
		return err
	}
	r.log.Info("the config has been read again")
	return nil
}

func (r *Room) apply(c *config.Config) error {
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
	built := map[string]*host{}
	r.mu.Lock()
	old := r.hosts
	r.mu.Unlock()
	for name, h := range old {
		if h.own {
			built[name] = h
		}
	}
	for name, s := range c.Sources {
		if s.Disabled {
			continue
		}
		digest := sourceDigest(s, c) + fmt.Sprint(c.PinOf(s), c.Quarantined(s))
		if h := built[name]; h != nil {
			return toolroom.Errorf(toolroom.CodeConflict, "the program itself offers a source %q", name).
				WithHint("give the one in the config another name")
		}
		if h, same := old[name]; same && h.digest == digest {
			built[name] = h
			continue
		}
		src, err := r.build(name, s, c)
		if err != nil {
			return err
		}
		built[name] = newHost(&host{
			name: name, digest: digest, src: src, catalog: r.catalog, cache: r.cacheFor(name, digest), masker: r.masker,
			admit: r.gate(name, trust{c.PinOf(s), c.Quarantined(s)}), log: r.log, library: &r.library, plain: s.Names == "plain",
		})
	}
	r.trust.Store(trusted)
	r.keeper.Configure(r.keeperOptions(c.Secrets))
	r.policy.current.Store(&inForce{rules, grants})
	if r.code != nil {
		r.code.SetEgress(guard)
	}
	r.mu.Lock()
	r.hosts, r.config = built, c
	started := r.stop != nil
	r.mu.Unlock()
	for name, h := range built {
		if started && old[name] != h {
			h.keepListed()
		}
	}
	for name, h := range old {
		if built[name] == h {
			continue
		}
		if built[name] == nil {
			r.catalog.RemoveProvider(name)
			r.library.Remove(name)
		}
		r.background.Go(func() { h.Close() })
	}
	return nil
}

package hosted

import (
	"context"
	"slices"
	"sync"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

// pools holds the warm sandboxes of an engine, by profile.
type pools struct {
	mu     sync.Mutex
	list   []*pool
	closed bool
	// kinds are the pools of programs that come again, the one used last at the end.
	kinds    []*pool
	removals sync.WaitGroup
	// removing is the number of sandboxes of ended programs that are being removed.
	removing int
}

// maxRemoving is the number of sandboxes that may be removed in the background at the same time.
// If there are more, callers remove their own, so that sandboxes do not end faster than they can
// be removed.
const maxRemoving = 8

// remove removes a sandbox in the background. It returns false if the caller must do so.
func (p *pools) remove(r *ready) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.removing == maxRemoving {
		return false
	}
	p.removing++
	p.removals.Go(func() {
		remove(r)
		p.mu.Lock()
		p.removing--
		p.mu.Unlock()
	})
	return true
}

// maxKinds is the number of pools for kinds of programs that come again. A new pool replaces the
// least recently used one.
const maxKinds = 8

// forKind returns the pool for sandboxes of a spec's kind. It makes one if there is none.
func (p *pools) forKind(s sandbox.Spec, w Warm, start func(context.Context, sandbox.Spec) (*ready, error)) *pool {
	wanted, base := kindKey(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	for i, one := range p.kinds {
		if have, _ := kindKey(one.base); have == wanted {
			p.kinds = append(slices.Delete(p.kinds, i, i+1), one)
			return one
		}
	}
	if len(p.kinds) == maxKinds {
		oldest := p.kinds[0]
		p.kinds = p.kinds[1:]
		p.removals.Go(oldest.close)
	}
	w.Size = max(w.Size, warmPerKind)
	made := newPool(w, base, start)
	made.lazy = true
	p.kinds = append(p.kinds, made)
	return made
}

// warmPerKind is the number of sandboxes that wait for programs of one kind that come again.
const warmPerKind = 2

func (p *pools) forProfile(profile sandbox.Profile) *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.find(profile)
}

func (p *pools) find(profile sandbox.Profile) *pool {
	for _, one := range p.list {
		if one.base.Profile == profile {
			return one
		}
	}
	return nil
}

func (p *pools) close() {
	p.mu.Lock()
	p.closed = true
	all := slices.Concat(p.list, p.kinds)
	p.mu.Unlock()
	var closing sync.WaitGroup
	for _, one := range all { // together, because an engine that does not answer takes killTimeout for each
		closing.Go(one.close)
	}
	closing.Wait()
	p.removals.Wait()
}

// Retire implements [engine.Retirer]. A sandbox that a program has taken belongs to no pool.
func (e *Engine) Retire(layer engine.Layer) {
	p := &e.pools
	p.mu.Lock()
	defer p.mu.Unlock()
	if layer.Path == "" || p.closed {
		return
	}
	p.kinds = slices.DeleteFunc(p.kinds, func(one *pool) bool {
		if one.base.Layer != layer.Path {
			return false
		}
		p.removals.Go(one.close)
		return true
	})
}

// Warm starts sandboxes in advance for programs like base, in its profile, and
// replaces used ones until Close. It does nothing if the profile already has a
// pool, and after Close.
func (e *Engine) Warm(base sandbox.Spec) {
	e.pools.mu.Lock()
	defer e.pools.mu.Unlock()
	if e.warm.Size > 0 && !e.pools.closed && e.pools.find(base.Profile) == nil {
		_, base = kindKey(base)
		e.pools.list = append(e.pools.list, newPool(e.warm, base, e.startAhead))
	}
}

// startAhead starts a sandbox before a program needs it.
func (e *Engine) startAhead(ctx context.Context, spec sandbox.Spec) (*ready, error) {
	if err := sandbox.Check(e.Name(), e.probe(ctx), spec); err != nil {
		return nil, err
	}
	spec.Env = append(slices.Clone(spec.Env), guest.AheadEnv+"=1")
	return e.startReady(ctx, spec)
}

// Try starts a sandbox for programs like base and removes it.
func (e *Engine) Try(ctx context.Context, base sandbox.Spec) error {
	_, base = kindKey(base)
	r, err := e.startAhead(ctx, base)
	if err != nil {
		return err
	}
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer done()
	return r.kill(ending)
}

// WarmConfig returns the configuration of warm sandboxes.
func (e *Engine) WarmConfig() Warm { return e.warm }

// Kinds returns the statistics of the sandboxes that wait for programs that come again, one
// entry for each kind.
func (e *Engine) Kinds() []Stats {
	e.pools.mu.Lock()
	defer e.pools.mu.Unlock()
	var all []Stats
	for _, one := range e.pools.kinds {
		all = append(all, one.snapshot())
	}
	return all
}

// Stats returns the statistics of the warm sandboxes, one entry for each profile.
func (e *Engine) Stats() []Stats {
	e.pools.mu.Lock()
	defer e.pools.mu.Unlock()
	var all []Stats
	for _, one := range e.pools.list {
		all = append(all, one.snapshot())
	}
	return all
}

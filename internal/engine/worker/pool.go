// Package worker keeps what runs the programs of an engine: processes as far
// from everything as the machine allows, each of one owner until it ends.
package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
)

// Worker runs programs of one owner, one after the other.
type Worker interface {
	comparable
	// Isolation is what it reached, such as wasm+ns+landlock+seccomp.
	Isolation() string
	// End ends it, and with it a run under way; it returns when that is done. It
	// may be called twice.
	End()
}

// DefaultSize is the size of a pool where the options of an engine say nothing.
const DefaultSize = 8

// Pool keeps workers that wait for the next run of their owner. Its methods may
// be called concurrently.
type Pool[W Worker] struct {
	engine string
	start  func(context.Context) (W, error)
	slots  chan struct{} // programs that run at once

	mu     sync.Mutex   // guards what follows
	idle   []waiting[W] // the longest idle first
	busy   map[W]string // their owners
	reach  string       // the isolation of the last worker
	closed bool
}

type waiting[W Worker] struct {
	worker W
	owner  string // empty until its first run
}

// NewPool makes the pool of an engine, which runs at most size programs at once;
// 0 means [DefaultSize].
func NewPool[W Worker](engine string, size int, start func(context.Context) (W, error)) *Pool[W] {
	if size <= 0 {
		size = DefaultSize
	}
	return &Pool[W]{engine: engine, start: start, slots: make(chan struct{}, size), busy: map[W]string{}}
}

// Acquire gives a worker to an owner, waiting until one is free. What served one
// owner never serves another; the owner "" is nobody, who runs nothing. When ctx
// ends first the error is its cause.
func (p *Pool[W]) Acquire(ctx context.Context, owner string) (w W, err error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return w, context.Cause(ctx)
	}
	if w, err = p.take(ctx, owner); err != nil {
		<-p.slots
	}
	return w, err
}

func (p *Pool[W]) take(ctx context.Context, owner string) (w W, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return w, p.errClosed()
	}
	if w, ok := p.pick(owner); ok {
		p.lend(w, owner)
		p.mu.Unlock()
		return w, nil
	}
	surplus, found := p.surplus()
	p.mu.Unlock()
	if found {
		surplus.End()
	}
	if w, err = p.start(ctx); err != nil {
		return w, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go w.End()
		return w, p.errClosed()
	}
	p.lend(w, owner)
	return w, nil
}

func (p *Pool[W]) errClosed() error {
	return toolroom.Errorf(toolroom.CodeCancelled, "the engine %s is closed", p.engine)
}

func (p *Pool[W]) lend(w W, owner string) {
	p.busy[w] = owner
	p.reach = w.Isolation()
}

// pick finds an idle worker of the owner, or one that nobody has used.
func (p *Pool[W]) pick(owner string) (w W, ok bool) {
	for _, want := range []string{owner, ""} {
		for i, one := range slices.Backward(p.idle) {
			if one.owner == want {
				p.idle = slices.Delete(p.idle, i, i+1)
				return one.worker, true
			}
		}
	}
	return w, false
}

// surplus is the worker that has to go before another may come: the longest idle
// one of a full pool.
func (p *Pool[W]) surplus() (w W, ok bool) {
	if len(p.idle) == 0 || len(p.idle)+len(p.busy) < cap(p.slots) {
		return w, false
	}
	w = p.idle[0].worker
	p.idle = slices.Delete(p.idle, 0, 1)
	return w, true
}

// Release takes a worker back; one that is not well is ended.
func (p *Pool[W]) Release(w W, well bool) {
	p.mu.Lock()
	owner := p.busy[w]
	delete(p.busy, w)
	keep := well && !p.closed
	if keep {
		p.idle = append(p.idle, waiting[W]{w, owner})
	}
	p.mu.Unlock()
	if !keep {
		w.End()
	}
	<-p.slots
}

// Running is how many programs run, and are about to.
func (p *Pool[W]) Running() int { return len(p.slots) }

// Isolation is what the last worker reached, empty before there was one.
func (p *Pool[W]) Isolation() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reach
}

// Reach is what workers reach: the last one or, where there was none, one that is
// started now and waits for the first run.
func (p *Pool[W]) Reach(ctx context.Context) (isolation string, err error) {
	if isolation = p.Isolation(); isolation != "" {
		return isolation, nil
	}
	w, err := p.Acquire(ctx, "")
	if err != nil {
		return "", err
	}
	defer p.Release(w, true)
	return w.Isolation(), nil
}

// Close ends all workers, those of runs under way included, and returns when no
// run is left.
func (p *Pool[W]) Close() {
	p.mu.Lock()
	p.closed = true
	var ending []W
	for _, one := range p.idle {
		ending = append(ending, one.worker)
	}
	for w := range p.busy {
		ending = append(ending, w)
	}
	p.idle = nil
	p.mu.Unlock()
	for _, w := range ending {
		w.End()
	}
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
}

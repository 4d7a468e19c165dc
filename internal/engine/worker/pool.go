// Package worker starts and pools the processes that run the programs of an
// engine. They are as isolated as the machine allows, and each serves one owner
// until it ends.
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
	// Isolation returns the isolation in effect, such as wasm+ns+landlock+seccomp.
	Isolation() string
	// End ends the worker, and with it a run under way. It returns when that is
	// done, and may be called twice.
	End()
}

// DefaultSize is the default size of a pool.
const DefaultSize = 8

// Pool keeps workers that are ready for the next run of their owner. Its methods
// are safe for concurrent use.
type Pool[W Worker] struct {
	engine string
	start  func(context.Context) (W, error)
	slots  chan struct{} // programs that run at once

	mu            sync.Mutex      // guards the fields below
	idle          []idleWorker[W] // the longest idle first
	busy          map[W]busyWorker
	lastIsolation string // isolation of the last worker
	closed        bool
}

type idleWorker[W Worker] struct {
	worker W
	owner  string // empty until its first run
}

// busyWorker describes a worker in use.
type busyWorker struct {
	owner  string
	waited bool
}

// NewPool returns the pool of an engine, which runs at most size programs at once,
// [DefaultSize] if zero.
func NewPool[W Worker](engine string, size int, start func(context.Context) (W, error)) *Pool[W] {
	if size <= 0 {
		size = DefaultSize
	}
	return &Pool[W]{engine: engine, start: start, slots: make(chan struct{}, size), busy: map[W]busyWorker{}}
}

// Acquire returns a worker for an owner, and waits until one is free. A worker of
// one owner never serves another; the owner "" runs no programs. If ctx ends
// first, the error is its cause.
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
	if w, ok := p.takeIdle(owner); ok {
		p.lend(w, owner, true)
		p.mu.Unlock()
		return w, nil
	}
	surplus, found := p.takeSurplus()
	p.mu.Unlock()
	if found {
		surplus.End()
	}
	if w, err = p.start(ctx); err != nil {
		return w, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.lend(w, owner, false)
	}
	p.mu.Unlock()
	if closed {
		w.End() // Close waits for this slot
		return w, p.errClosed()
	}
	return w, nil
}

func (p *Pool[W]) errClosed() error {
	return toolroom.Errorf(toolroom.CodeCancelled, "the engine %s is closed", p.engine)
}

func (p *Pool[W]) lend(w W, owner string, waited bool) {
	p.busy[w] = busyWorker{owner, waited}
	p.lastIsolation = w.Isolation()
}

// takeIdle removes and returns an idle worker of the owner, or one without an owner.
func (p *Pool[W]) takeIdle(owner string) (w W, ok bool) {
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

// takeSurplus removes and returns the longest idle worker of a full pool, which the caller must end
// before it starts another.
func (p *Pool[W]) takeSurplus() (w W, ok bool) {
	// A slot is taken by each worker that is busy or being started, this one included.
	if len(p.idle) == 0 || len(p.idle)+len(p.slots) <= cap(p.slots) {
		return w, false
	}
	w = p.idle[0].worker
	p.idle = slices.Delete(p.idle, 0, 1)
	return w, true
}

// Release returns a worker to the pool, or ends it if it is not well.
func (p *Pool[W]) Release(w W, well bool) {
	p.mu.Lock()
	owner := p.busy[w].owner
	delete(p.busy, w)
	keep := well && !p.closed
	if keep {
		p.idle = append(p.idle, idleWorker[W]{w, owner})
	}
	p.mu.Unlock()
	if !keep {
		w.End()
	}
	<-p.slots
}

// Waited reports whether a worker in use had waited in the pool before. The system may have ended
// such a worker meanwhile, for example for lack of memory; a program that it did not begin can be
// given another one.
func (p *Pool[W]) Waited(w W) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy[w].waited
}

// Isolation returns the isolation of the last worker, "" if there was none yet.
func (p *Pool[W]) Isolation() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastIsolation
}

// ProbeIsolation returns the isolation of the last worker. If there was none yet, it starts a
// worker, which is kept for the first run.
func (p *Pool[W]) ProbeIsolation(ctx context.Context) (isolation string, err error) {
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

// Close ends all workers, even during runs, and returns when no run is left.
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

package monty

import (
	"context"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
)

// pool keeps workers that wait for the next run of their owner.
type pool struct {
	start starter
	slots chan struct{} // programs that run at once

	mu     sync.Mutex
	idle   []*worker // the longest idle first
	busy   map[*worker]struct{}
	reach  string // the isolation of the last worker started
	closed bool
}

func newPool(s starter, size int) *pool {
	return &pool{start: s, slots: make(chan struct{}, size), busy: map[*worker]struct{}{}}
}

// acquire gives a worker to an owner, waiting until one is free. What served
// one owner never serves another.
func (p *pool) acquire(ctx context.Context, owner string) (*worker, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	w, err := p.take(ctx, owner)
	if err != nil {
		<-p.slots
	}
	return w, err
}

func (p *pool) take(ctx context.Context, owner string) (*worker, error) {
	p.mu.Lock()
	w, surplus := p.pick(owner)
	p.mu.Unlock()
	if surplus != nil {
		surplus.kill()
	}
	if w == nil {
		var err error
		if w, err = p.start(ctx); err != nil {
			return nil, err
		}
	}
	w.owner = owner
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go w.kill()
		return nil, toolroom.Errorf(toolroom.CodeCancelled, "the engine %s is closed", Name)
	}
	p.busy[w] = struct{}{}
	p.reach = w.isolation
	return w, nil
}

// pick finds an idle worker of the owner, or one that nobody has used. When
// there is none and the pool is full, the longest idle one has to go.
func (p *pool) pick(owner string) (found, surplus *worker) {
	for _, want := range []string{owner, ""} {
		for i, w := range slices.Backward(p.idle) {
			if w.owner == want {
				p.idle = slices.Delete(p.idle, i, i+1)
				return w, nil
			}
		}
	}
	if len(p.idle)+len(p.busy) >= cap(p.slots) && len(p.idle) > 0 {
		surplus = p.idle[0]
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	return nil, surplus
}

// release takes a worker back; one that is not well is ended.
func (p *pool) release(w *worker, well bool) {
	p.mu.Lock()
	delete(p.busy, w)
	keep := well && !p.closed
	if keep {
		p.idle = append(p.idle, w)
	}
	p.mu.Unlock()
	if !keep {
		w.kill()
	}
	<-p.slots
}

// isolation is what the last worker reached, empty before there was one.
func (p *pool) isolation() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reach
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	ending := p.idle
	for w := range p.busy {
		ending = append(ending, w) // its run ends with it
	}
	p.idle = nil
	p.mu.Unlock()
	for _, w := range ending {
		w.kill()
	}
	// Every slot taken means that no run is left.
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	return nil
}

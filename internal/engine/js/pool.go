package js

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// starter starts what runs programs.
type starter interface {
	start(ctx context.Context) (*worker, error)
	close() error
}

// worker runs programs of one owner, one after the other.
type worker struct {
	conn      *bridge.Conn
	owner     string // empty until its first run
	isolation string
	kill      func() // ends it; returns when it has ended
	lastWords func() string
}

// connect waits for the hello of a worker that has been started.
func connect(ctx context.Context, stream io.ReadWriteCloser, w *worker) (*worker, error) {
	conn, err := bridge.Accept(ctx, stream, bridge.Options{Grace: killGrace})
	if err != nil {
		w.kill()
		return nil, unavailable(fmt.Errorf("%w%s", err, w.lastWords()))
	}
	w.conn = conn
	return w, nil
}

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no JavaScript worker could be started: %w", err).
		WithHint("toolroom doctor tells what this machine allows")
}

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
		return nil, cancelled()
	}
	w, err := p.take(ctx, owner)
	if err != nil {
		<-p.slots
	}
	return w, err
}

func (p *pool) take(ctx context.Context, owner string) (*worker, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed()
	}
	w, surplus := p.pick(owner)
	p.mu.Unlock()
	if surplus != nil {
		surplus.end()
	}
	if w == nil {
		var err error
		if w, err = p.start.start(ctx); err != nil {
			return nil, err
		}
	}
	w.owner = owner
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		go w.end()
		return nil, errClosed()
	}
	p.busy[w] = struct{}{}
	p.reach = w.isolation
	return w, nil
}

func errClosed() error {
	return toolroom.Errorf(toolroom.CodeCancelled, "the JavaScript engine is closed")
}

// pick finds an idle worker of the owner, or one that nobody has used. When
// there is none and the pool is full, the longest idle one has to go.
func (p *pool) pick(owner string) (found, surplus *worker) {
	for _, want := range []string{owner, ""} {
		for i := len(p.idle) - 1; i >= 0; i-- {
			if w := p.idle[i]; w.owner == want {
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
		w.end()
	}
	<-p.slots
}

func (w *worker) end() {
	_ = w.conn.Close() // it is killed next
	w.kill()
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
	idle := p.idle
	p.idle = nil
	for w := range p.busy {
		_ = w.conn.Close() // its run ends, and with that the worker
	}
	p.mu.Unlock()
	for _, w := range idle {
		w.end()
	}
	// Every slot taken means that no run is left.
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	return errors.Join(p.start.close())
}

// Package inflight tracks the calls of a source, so that closing the source
// ends them and waits for them.
package inflight

import (
	"context"
	"errors"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
)

// Group is the set of calls of one source. The zero value is ready to use. A Group must
// not be copied. Its methods may be called concurrently.
type Group struct {
	mu      sync.Mutex
	closed  bool
	calls   map[int]ender
	next    int
	running sync.WaitGroup
}

// Begin starts a call. The returned context ends with ctx or when the group is closed. The
// caller must call done when the work has ended. If ctx has a [deadline.Timer], as in
// calls by a runner, Close ends that timer and Begin returns ctx itself. Begin returns an
// error with code cancelled or timeout if ctx has already ended, and with code
// upstream_unavailable if the group is closed.
func (g *Group) Begin(ctx context.Context) (_ context.Context, done func(), _ error) {
	if ctx.Err() != nil {
		return nil, nil, EndOf(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil, errClosed()
	}
	if g.calls == nil {
		g.calls = make(map[int]ender)
	}
	var call ender
	over := func() {}
	if clock := deadline.Of(ctx); clock != nil {
		call = clock
	} else {
		under, cancel := context.WithCancelCause(ctx)
		ctx, call, over = under, canceller(cancel), func() { cancel(nil) }
	}
	key := g.next
	g.next++
	g.calls[key] = call
	g.running.Add(1)
	return ctx, func() {
		g.mu.Lock()
		delete(g.calls, key)
		g.mu.Unlock()
		over()
		g.running.Done()
	}, nil
}

// ender ends a call with a cause.
type ender interface{ End(cause error) }

type canceller context.CancelCauseFunc

func (c canceller) End(cause error) { c(cause) }

// Close ends all calls, refuses new ones, and returns when every call is done. It is
// idempotent.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	for _, call := range g.calls {
		call.End(errClosed())
	}
	g.mu.Unlock()
	g.running.Wait()
}

// EndOf returns the reason for the end of ctx as an error with a code: that of its cause,
// else timeout or cancelled.
func EndOf(ctx context.Context) *toolroom.Error {
	cause := context.Cause(ctx)
	var typed *toolroom.Error
	switch {
	case errors.As(cause, &typed):
		return typed
	case errors.Is(cause, context.DeadlineExceeded):
		return toolroom.Errorf(toolroom.CodeTimeout, "the call's time is up: %w", cause)
	default:
		return toolroom.Errorf(toolroom.CodeCancelled, "the call was cancelled: %w", cause)
	}
}

func errClosed() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source of this tool is closed").
		WithHint("list the tools again: the source was removed or reloaded")
}

// Package inflight tracks the calls of a source, so that closing the source
// ends them and waits for them.
package inflight

import (
	"context"
	"errors"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/patience"
)

// Group is the calls of one source. Its zero value is ready; it must not be
// copied. All methods may be called concurrently.
type Group struct {
	mu      sync.Mutex
	closed  bool
	calls   map[int]ender
	next    int
	running sync.WaitGroup
}

// Begin starts a call: its context ends with ctx or when the group is closed,
// and done must be called when the work has ended. Around a call that a runner
// makes stands a [patience.Clock] of its own, which then is what ends. It fails, with code
// cancelled or timeout when ctx has already ended, and upstream_unavailable
// when the group is closed.
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
	if clock := patience.Of(ctx); clock != nil {
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

// ender ends a call, with the cause of that.
type ender interface{ End(cause error) }

type canceller context.CancelCauseFunc

func (c canceller) End(cause error) { c(cause) }

// Close ends all calls, lets no new one begin, and returns when every call is
// done. It is idempotent.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	for _, call := range g.calls {
		call.End(errClosed())
	}
	g.mu.Unlock()
	g.running.Wait()
}

// EndOf is why ctx ended, as an error with a code: the one that its cause
// carries, else timeout or cancelled.
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

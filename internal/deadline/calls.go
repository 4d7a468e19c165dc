package deadline

import (
	"context"
	"errors"
	"sync"

	"github.com/toolroom/toolroom"
)

// Calls are the running calls of a source, which closing the source ends and waits for. The
// zero value is ready to use. It must not be copied. Its methods may be called concurrently.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	calls   map[int]context.CancelCauseFunc
	next    int
	running sync.WaitGroup
}

// Begin starts a call. The returned context ends with ctx or when c is closed. The
// caller must call done when the work has ended. If ctx has a [Timer], as in
// calls by a runner, Close ends that timer and Begin returns ctx itself. Begin returns an
// error with code cancelled or timeout if ctx has already ended, and with code
// upstream_unavailable if c is closed.
func (c *Calls) Begin(ctx context.Context) (_ context.Context, done func(), _ error) {
	if ctx.Err() != nil {
		return nil, nil, Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, errClosed()
	}
	if c.calls == nil {
		c.calls = make(map[int]context.CancelCauseFunc)
	}
	var end context.CancelCauseFunc
	clock := Of(ctx)
	if clock != nil {
		end = clock.End
	} else {
		ctx, end = context.WithCancelCause(ctx)
	}
	key := c.next
	c.next++
	c.calls[key] = end
	c.running.Add(1)
	return ctx, func() {
		c.mu.Lock()
		delete(c.calls, key)
		c.mu.Unlock()
		if clock == nil {
			end(nil)
		}
		c.running.Done()
	}, nil
}

// Close ends all calls, refuses new ones, and returns when every call is done. It is
// idempotent.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	for _, end := range c.calls {
		end(errClosed())
	}
	c.mu.Unlock()
	c.running.Wait()
}

// Cause returns the cause of the end of ctx as an error with a code: that of its cause,
// else timeout or cancelled.
func Cause(ctx context.Context) *toolroom.Error {
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

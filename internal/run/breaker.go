package run

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// BreakerLimits configure the circuit breaker of each tool.
type BreakerLimits struct {
	// Failures is how many consecutive failures open the circuit (5). Then one call per
	// Delay (1.5 s) is permitted, until one succeeds.
	Failures int
	Delay    time.Duration
}

// breaker is the circuit of one tool.
type breaker struct {
	BreakerLimits
	mu     sync.Mutex
	failed int       // consecutive failures
	next   time.Time // when an open circuit permits the next call
}

// enter permits a call, or returns how long to wait until one is permitted.
func (b *breaker) enter() (wait time.Duration, permitted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < b.Failures {
		return 0, true
	}
	now := time.Now()
	if wait = b.next.Sub(now); wait > 0 {
		return wait, false
	}
	// If this call hangs, the next one does not wait for its end.
	b.next = now.Add(b.Delay)
	return 0, true
}

// leave records how a call ended.
func (b *breaker) leave(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch open := b.failed >= b.Failures; {
	case errors.Is(err, context.Canceled): // says nothing about the source
	case !upstreamFault(err):
		b.failed = 0
	case unreached(err):
		// The source itself decides when to reconnect, so the breaker adds no delay.
		b.next = time.Time{}
	case !open:
		b.failed++
		b.next = time.Now().Add(b.Delay)
	}
}

func withBreaker(next executor, l BreakerLimits) executor {
	var breakers sync.Map // of *breaker, by the canonical id
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		id := x.call.entry.ID
		kept, ok := breakers.Load(id)
		if !ok {
			kept, _ = breakers.LoadOrStore(id, &breaker{BreakerLimits: l})
		}
		b := kept.(*breaker)
		if wait, permitted := b.enter(); !permitted {
			wait = max(wait.Round(time.Second), time.Second)
			e := toolroom.Errorf(toolroom.CodeCircuitOpen, "%s failed %d times in a row and is not called for now", id, l.Failures)
			e.RetryAfter = wait
			return nil, e.WithHint("try again in %s", wait).WithCLIHint("see what is wrong: toolroom sources test %s", x.call.entry.Tool.ID.Namespace)
		}
		out, err := next(ctx, x)
		if err != nil && ctx.Err() != nil {
			ended := context.Cause(ctx) // inside the call, its deadline looks like a cancellation
			if errors.Is(ended, context.DeadlineExceeded) && x.hurried() {
				ended = context.Canceled
			}
			b.leave(ended)
		} else {
			b.leave(err)
		}
		return out, err
	}
}

// hurried reports whether the tool has run for less than its usual time: whoever set so
// short a deadline learns nothing about the tool, and must not close it to others.
func (x *execution) hurried() bool {
	c := x.call
	usual := min(cmp.Or(c.entry.Tool.DefaultTimeout, c.runner.Limits().Timeout), c.ceiling())
	return c.runner.Now().Sub(x.began) < usual-time.Millisecond
}

// unreached reports whether a call failed before anything was sent.
func unreached(err error) bool {
	return toolroom.AsError(err).Effects == toolroom.EffectsNone
}

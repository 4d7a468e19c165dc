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
	mu       sync.Mutex
	failed   int       // consecutive failures
	nextCall time.Time // when an open circuit permits the next call
}

// permit reports whether a call is permitted now, and if not, how long to wait.
func (b *breaker) permit() (wait time.Duration, permitted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < b.Failures {
		return 0, true
	}
	now := time.Now()
	if wait = b.nextCall.Sub(now); wait > 0 {
		return wait, false
	}
	// If this call hangs, the next one does not wait for its end.
	b.nextCall = now.Add(b.Delay)
	return 0, true
}

// record records how a call ended.
func (b *breaker) record(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch open := b.failed >= b.Failures; {
	case errors.Is(err, context.Canceled): // says nothing about the source
	case !upstreamFault(err):
		b.failed = 0
	case failedBeforeSending(err):
		// The source itself decides when to reconnect, so the breaker adds no delay.
		b.nextCall = time.Time{}
	case !open:
		b.failed++
		b.nextCall = time.Now().Add(b.Delay)
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
		if wait, permitted := b.permit(); !permitted {
			wait = max(wait.Round(time.Second), time.Second)
			e := toolroom.Errorf(toolroom.CodeCircuitOpen, "%s failed %d times in a row and is not called for now", id, l.Failures)
			e.RetryAfter = wait
			return nil, e.WithHint("try again in %s", wait).WithCLIHint("see what is wrong: toolroom sources test %s", x.call.entry.Tool.ID.Namespace)
		}
		attempts := x.attempts
		out, err := next(ctx, x)
		if x.attempts == attempts {
			return out, err // the source was not called, because the caller's token has ended
		}
		if err != nil && ctx.Err() != nil {
			ended := context.Cause(ctx) // inside the call, its deadline looks like a cancellation
			if errors.Is(ended, context.DeadlineExceeded) && x.belowUsualTimeout() {
				ended = context.Canceled
			}
			b.record(ended)
		} else {
			b.record(err)
		}
		return out, err
	}
}

// belowUsualTimeout reports whether the tool has run for less than its usual timeout. Exceeding
// a shorter deadline says nothing about the tool, so it must not open the circuit for others.
func (x *execution) belowUsualTimeout() bool {
	c := x.call
	usual := min(cmp.Or(c.entry.Tool.DefaultTimeout, c.runner.Limits().Timeout), c.maxTimeout())
	return c.runner.Now().Sub(x.began) < usual-time.Millisecond
}

// failedBeforeSending reports whether a call failed before anything was sent.
func failedBeforeSending(err error) bool {
	return toolroom.AsError(err).Effects == toolroom.EffectsNone
}

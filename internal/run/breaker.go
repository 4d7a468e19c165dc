package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// BreakerLimits say when a tool whose source keeps failing is left alone.
type BreakerLimits struct {
	// Failures in a row open the circuit (5); from then on one call in each
	// Delay (1.5 s) may try, until one is well.
	Failures int
	Delay    time.Duration
}

// breaker is the circuit of one tool.
type breaker struct {
	BreakerLimits
	mu     sync.Mutex
	failed int       // in a row
	next   time.Time // when one may try, of an open circuit
}

// enter permits a call, or says how long until one is.
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
	// Should this one hang, the next need not wait for its end.
	b.next = now.Add(b.Delay)
	return 0, true
}

// leave learns how a call ended.
func (b *breaker) leave(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch open := b.failed >= b.Failures; {
	case errors.Is(err, context.Canceled): // which says nothing of the source
	case !upstreamFault(err):
		b.failed = 0
	case unreached(err):
		// The source itself knows when to connect again, and is not to be left
		// alone for longer.
		b.next = time.Time{}
	case !open:
		b.failed++
		b.next = time.Now().Add(b.Delay)
	}
}

func withBreaker(next executor, l BreakerLimits) executor {
	var breakers sync.Map // of *breaker, by the canonical id
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		id := x.entry.ID
		kept, ok := breakers.Load(id)
		if !ok {
			kept, _ = breakers.LoadOrStore(id, &breaker{BreakerLimits: l})
		}
		b := kept.(*breaker)
		if wait, permitted := b.enter(); !permitted {
			wait = max(wait.Round(time.Second), time.Second)
			e := toolroom.Errorf(toolroom.CodeCircuitOpen, "%s failed %d times in a row and is left alone for now", id, l.Failures)
			e.Details = map[string]any{"retry_after_seconds": wait.Seconds()}
			return nil, e.WithHint("try again in %s; see what is wrong: toolroom sources test %s", wait, x.entry.Tool.ID.Namespace)
		}
		out, err := next(ctx, x)
		if err != nil && ctx.Err() != nil {
			b.leave(context.Cause(ctx)) // contexts within the call's call its deadline a cancel
		} else {
			b.leave(err)
		}
		return out, err
	}
}

// unreached reports whether a call failed before anything was sent.
func unreached(err error) bool {
	return toolroom.AsError(err).Details["effects"] == toolroom.EffectsNone
}

package run

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// RetryLimits limit the retries of a call that failed because of its source. Only calls
// that may be repeated are: those of tools with the guarantee safe, or keyed if the call has
// a key.
type RetryLimits struct {
	// Attempts is the largest number of attempts (3); 1 means no retry.
	Attempts int
	// Base is the first pause (100 ms). It doubles, with jitter, up to Max (30 s).
	Base time.Duration
	Max  time.Duration
}

func withRetry(next executor, l RetryLimits) executor {
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		repeats := l.Attempts > 1 && mayRepeat(x)
		for attempt := 1; ; attempt++ {
			out, err := next(ctx, x)
			if !repeats || attempt >= l.Attempts || !repeatable(err) || ctx.Err() != nil {
				return out, err
			}
			select {
			case <-time.After(l.pause(attempt)):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			x.request.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{
				Level: "warning", Message: "trying again after: " + err.Error(),
			}})
		}
	}
}

// pause returns the pause after a failed attempt, the first of which is 1. It varies by a
// quarter, so that callers that failed together do not come back together.
func (l RetryLimits) pause(attempt int) time.Duration {
	pause := l.Base
	for range attempt - 1 {
		if pause >= l.Max/2 {
			pause = l.Max
			break
		}
		pause *= 2
	}
	return min(l.Max, time.Duration(float64(pause)*(0.75+rand.Float64()/2)))
}

func mayRepeat(x *execution) bool {
	switch x.call.entry.Tool.RepeatGuarantee() {
	case toolroom.GuaranteeSafe:
		return true
	case toolroom.GuaranteeKeyed:
		return x.request.IdempotencyKey != ""
	default:
		return false
	}
}

func repeatable(err error) bool {
	var e *toolroom.Error
	return errors.As(err, &e) && e.Retryable && e.Code != toolroom.CodeCircuitOpen
}

package run

import (
	"context"
	"errors"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// RetryLimits bound the repeats of a call whose source was in trouble. Only
// calls that may be repeated are: by guarantee safe, or keyed with a key.
type RetryLimits struct {
	// Attempts is how often a call is tried in all (3); 1 never repeats.
	Attempts int
	// Base is the first pause (100 ms); it doubles, with jitter, up to Max (30 s).
	Base time.Duration
	Max  time.Duration
}

func withRetry(next executor, l RetryLimits) executor {
	policy := retrypolicy.NewBuilder[*source.Output]().
		HandleIf(func(_ *source.Output, err error) bool { return repeatable(err) }).
		WithMaxRetries(l.Attempts-1).
		WithBackoff(l.Base, max(l.Max, l.Base+1)).
		WithJitterFactor(0.25).
		ReturnLastFailure().
		Build()
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		if l.Attempts <= 1 || !mayRepeat(x) {
			return next(ctx, x)
		}
		return failsafe.With(policy).WithContext(ctx).GetWithExecution(func(e failsafe.Execution[*source.Output]) (*source.Output, error) {
			if e.IsRetry() {
				x.request.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{
					Level: "warning", Message: "trying again after: " + e.LastError().Error(),
				}})
			}
			return next(ctx, x)
		})
	}
}

func mayRepeat(x *execution) bool {
	switch x.entry.Tool.RepeatGuarantee() {
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

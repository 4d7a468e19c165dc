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

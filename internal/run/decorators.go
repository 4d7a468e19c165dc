package run

import (
	"context"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// executor runs a tool. Decorators wrap one executor in another.
type executor func(context.Context, *execution) (*source.Output, error)

// newExecutor builds the decorators around every tool, innermost first.
func newExecutor(l Limits, now func() time.Time) executor {
	x := executor(callSource)
	x = withBreaker(x, l.Breaker)
	x = withRetry(x, l.Retry)
	x = withConcurrency(x, l.Concurrency)
	x = withRate(x, l.Rate)
	x = withCache(x, l.Cache, now)
	return x
}

func callSource(ctx context.Context, x *execution) (*source.Output, error) {
	// The call may have waited since it was decided: for a slot, or for its next attempt.
	if err := x.call.checkToken(); err != nil {
		return &source.Output{Unsent: true}, err
	}
	x.attempts++
	before := x.sent
	if x.attempts > 1 {
		if err := x.call.checkUnchanged(x.call.entry); err != nil {
			return &source.Output{Unsent: true}, err
		}
	}
	x.sent = true // also when the source panics
	out, err := x.call.entry.Source.Call(ctx, &x.request)
	x.sent = before || err == nil || out == nil || !out.Unsent
	return out, err
}

// upstreamFault reports whether err says that the service behind the tool is in trouble,
// rather than that the tool did its work and failed.
func upstreamFault(err error) bool {
	if err == nil {
		return false
	}
	var e *toolroom.Error
	if !errors.As(err, &e) {
		return errors.Is(err, context.DeadlineExceeded)
	}
	switch e.Code {
	case toolroom.CodeUpstreamUnavailable, toolroom.CodeTimeout:
		return true
	case toolroom.CodeUpstreamError:
		return e.Retryable
	default:
		return false
	}
}

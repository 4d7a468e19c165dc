package run

import (
	"context"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/source"
)

// execution is one run of a tool inside its decorators, and the context of what
// the tool does: it ends with the tool's time, and calls made with it are
// children of its pass.
type execution struct {
	patience.Clock
	entry   *catalog.Entry
	request source.Request
	// pass is the call that this runs for.
	pass *pass

	attempts int
	cached   bool
	sent     bool // an attempt may have reached the tool
	output   *source.Output
	err      error
}

func (x *execution) Value(key any) any {
	if key == (passKey{}) {
		return x.pass
	}
	return x.Clock.Value(key)
}

// executor runs a tool. Decorators wrap one executor in another.
type executor func(context.Context, *execution) (*source.Output, error)

// newExecutor builds what stands around every tool, innermost first.
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
	x.attempts++
	before := x.sent
	x.sent = true // also when the source panics
	out, err := x.entry.Source.Call(ctx, &x.request)
	x.sent = before || err == nil || out == nil || !out.Unsent
	return out, err
}

// upstreamFault reports whether err says that the tool's place is in trouble,
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

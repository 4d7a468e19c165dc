package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/sandbox"
)

// Stopped returns why a run was stopped if its context has ended, else nil.
func Stopped(ctx context.Context) error {
	switch {
	case errors.Is(context.Cause(ctx), ErrWall):
		return TimedOut()
	case ctx.Err() != nil:
		return Cancelled()
	}
	return nil
}

// StoppedAsReported returns why a program was stopped if f reports that it was
// cancelled. For any other failure it returns nil.
func StoppedAsReported(ctx context.Context, f *bridge.Failure) error {
	if f == nil || f.Kind != bridge.FailCancelled {
		return nil
	}
	return Stopped(ctx)
}

// TimedOut returns the error of a run that used up its time.
func TimedOut() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeTimeout, "%s", timeOver).
		WithHint("make it do less, or ask for a higher timeout")
}

const timeOver = "the program was stopped: its time was over"

// WithTime returns err, with the limit that was reached if it is that of [TimedOut].
func WithTime(err error, what string, limit time.Duration) error {
	e := (*toolroom.Error)(nil)
	if !errors.As(err, &e) || e.Code != toolroom.CodeTimeout || e.Message != timeOver || limit <= 0 {
		return err
	}
	named := *e
	named.Message = fmt.Sprintf("%s was stopped: its time was over (limit: %s)", what, limit.Round(100*time.Millisecond))
	return &named
}

// Cancelled returns the error of a run that its caller ended.
func Cancelled() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeCancelled, "the program was stopped: the call was cancelled")
}

// WorkerLost returns the error of a run that ended with its worker: why it was
// stopped, if it was, else err if it is a [*toolroom.Error] already, else that the
// worker failed.
func WorkerLost(ctx context.Context, err error) error {
	var known *toolroom.Error
	stopped := Stopped(ctx)
	switch {
	case errors.As(err, &known):
		return known
	case stopped != nil:
		return stopped
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the worker that ran the program ended early: %w", err).
		WithHint("the program ended with it; other runs were not affected")
}

// CheckLimits returns an error if a limit is negative.
func CheckLimits(l bridge.Limits) error {
	if l.Wall < 0 || l.CPU < 0 || l.Memory < 0 || l.Output < 0 || l.Calls < 0 || l.Parallel < 0 || l.Bytes < 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a limit of a program cannot be negative").
			WithHint("omit a limit, or set it to 0, to use the default")
	}
	return nil
}

// CheckProcessors returns an error if s limits the number of processors. Engines
// that can limit only CPU time use it.
func CheckProcessors(name string, s sandbox.Spec) error {
	if s.Limits.CPUs > 0 && !s.BestEffort {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s engine cannot hold a number of processors", name).
			WithHint("limit the CPU time, or name a sandbox such as process")
	}
	return nil
}

package engine

import (
	"context"
	"errors"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/sandbox"
)

// Stopped says why a run whose context has ended was stopped; nil while it lives.
func Stopped(ctx context.Context) error {
	switch {
	case errors.Is(context.Cause(ctx), ErrWall):
		return TimedOut()
	case ctx.Err() != nil:
		return Cancelled()
	}
	return nil
}

// StoppedAsTold is why a program that says of itself that it was cancelled was
// so; nil of any other failure.
func StoppedAsTold(ctx context.Context, f *bridge.Failure) error {
	if f == nil || f.Kind != bridge.FailCancelled {
		return nil
	}
	return Stopped(ctx)
}

// TimedOut is the error of a run whose time was over.
func TimedOut() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeTimeout, "the program was stopped: its time was over").
		WithHint("make it do less, or ask for a higher timeout")
}

// Cancelled is the error of a run that its caller ended.
func Cancelled() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeCancelled, "the program was stopped: the call was cancelled")
}

// BrokeOff is the error of a run that ended with its worker: why it was stopped
// if it was, or what is known already, or else that the worker failed.
func BrokeOff(ctx context.Context, err error) error {
	var known *toolroom.Error
	stopped := Stopped(ctx)
	switch {
	case errors.As(err, &known):
		return known
	case stopped != nil:
		return stopped
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the worker that ran the program broke off: %w", err).
		WithHint("the program was ended with it; other runs were not touched")
}

// CheckLimits refuses limits that cannot be meant.
func CheckLimits(l bridge.Limits) error {
	if l.Wall < 0 || l.CPU < 0 || l.Memory < 0 || l.Output < 0 || l.Calls < 0 || l.Parallel < 0 || l.Bytes < 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a limit of a program cannot be negative").
			WithHint("leave a limit out, or give 0, for its default")
	}
	return nil
}

// CheckProcessors refuses a number of processors, for an engine that counts CPU time
// and no more.
func CheckProcessors(name string, s sandbox.Spec) error {
	if s.Limits.CPUs > 0 && !s.BestEffort {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s engine cannot hold a number of processors", name).
			WithHint("limit the CPU time, or name a sandbox such as process")
	}
	return nil
}

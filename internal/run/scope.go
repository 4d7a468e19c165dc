package run

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// scope is the only value that this package puts into a context. It holds the values that a
// call inherits from its parent call, and those that its surface has set for it. A scope does
// not change once it is in a context.
type scope struct {
	// Child calls inherit these. The runner, and with it the policy, is nil outside of
	// calls. The deadline is that of the context.
	runner   *Runner
	identity toolroom.Identity
	session  string
	surface  string // of the outermost call
	budget   *toolroom.Budget
	depth    int
	labels   *taint.Set
	// environment and releases decide which versions of tools serve the calls.
	environment string
	releases    ReleaseSnapshot
	// The trace: the call that the context belongs to, its tool, and its parent call.
	id     string
	tool   string
	entry  *catalog.Entry
	parent *scope
	// tally is where the child calls add what they have used and read.
	tally *tally
	// suspend makes the call suspendable; nil if it cannot outlive its request.
	suspend func(ctx context.Context, lost func()) (*Suspension, error)

	// Surfaces set these for the outermost call. All calls below it ask asker.
	sink       func(toolroom.Event)
	asker      source.Asker
	startTask  TaskStarter
	suspension *Suspension
	reserved   *reservation
	// offers says which tools the surface offers; nil means all.
	offers func(*catalog.Entry) bool
	// fakes answers the calls that tools make.
	fakes func(*toolroom.Call) *toolroom.Result
	// approvalWait limits how long calls wait for a person; zero means the runner's limit.
	approvalWait time.Duration
}

// tally counts the child calls of a call, and collects the taint labels of data that was read
// in the call.
type tally struct {
	calls  atomic.Int64
	labels taint.Set // of data that the child calls have read
	stored taint.Set // of stored data that the call itself has read
}

type scopeKey struct{}

var noScope scope

// scopeOf returns the scope of ctx. It is empty outside of calls.
func scopeOf(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s
	}
	return &noScope
}

// withScope returns a context with a changed copy of the scope of ctx.
func withScope(ctx context.Context, change func(*scope)) context.Context {
	s := *scopeOf(ctx)
	change(&s)
	return context.WithValue(ctx, scopeKey{}, &s)
}

// WithSink makes sink receive the events of calls run with ctx, in order. sink may block:
// that is the backpressure on the tool. It is not called for child calls.
func WithSink(ctx context.Context, sink func(toolroom.Event)) context.Context {
	return withScope(ctx, func(s *scope) { s.sink = sink })
}

// WithClient is WithSink for a client that can answer questions. asker receives the questions
// of the tools that are called with ctx and of their child calls; if it is nil, they cannot
// ask. approvalWait, if it is not zero, limits how long these calls wait for a person, if that
// is shorter than the runner's limit. After that they fail with approval_required, and the
// same call runs once after the answer.
func WithClient(ctx context.Context, sink func(toolroom.Event), asker source.Asker, approvalWait time.Duration) context.Context {
	return withScope(ctx, func(s *scope) { s.sink, s.asker, s.approvalWait = sink, asker, approvalWait })
}

// WithFakes makes answer reply to all calls that tools make in calls with ctx: nothing runs,
// and there are no receipts of them.
func WithFakes(ctx context.Context, answer func(*toolroom.Call) *toolroom.Result) context.Context {
	return withScope(ctx, func(s *scope) { s.fakes = answer })
}

// limitApprovalWait returns the shorter of wait and the limit of ctx.
func limitApprovalWait(ctx context.Context, wait time.Duration) time.Duration {
	if limit := scopeOf(ctx).approvalWait; limit > 0 {
		return min(wait, limit)
	}
	return wait
}

// WithTasks lets a call with ctx continue as a task: start is called, at most once, when
// its source has started work that continues by itself.
func WithTasks(ctx context.Context, start TaskStarter) context.Context {
	return withScope(ctx, func(s *scope) { s.startTask = start })
}

// WithSharedTaint makes calls with ctx share their taint labels, as the steps of a chain
// do: the result of one may be in the arguments of the next.
func WithSharedTaint(ctx context.Context) context.Context {
	if scopeOf(ctx).labels != nil {
		return ctx
	}
	return withScope(ctx, func(s *scope) { s.labels = &taint.Set{} })
}

// SurfaceOf returns the surface of the outermost call that ctx belongs to, or "" if ctx is not
// that of a call.
func SurfaceOf(ctx context.Context) string { return scopeOf(ctx).surface }

// CallsLeft returns how many calls a tool that runs with ctx may still make.
func CallsLeft(ctx context.Context) int64 {
	s := scopeOf(ctx)
	if s.runner == nil {
		return toolroom.DefaultMaxCalls
	}
	left, _ := s.budget.Left()
	return left
}

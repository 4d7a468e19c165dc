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

// scope is the only value that this package puts into a context. A call finds in it what
// it inherits from the call around it, and what its surface has set up for it. A scope
// does not change once it is in a context.
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
	// The trace: the call that the context belongs to, its tool, and the call around it.
	id     string
	tool   string
	entry  *catalog.Entry
	around *scope
	// inside is what the call's children report to it.
	inside *inside
	// suspend makes the call suspendable; nil if it cannot outlive its request.
	suspend func(ctx context.Context, lost func()) (*Suspension, error)

	// Surfaces set these for the outermost call. All calls below it ask asker.
	sink       func(toolroom.Event)
	asker      source.Asker
	tasks      StartTask
	suspension *Suspension
	reserved   *reservation
	// offers says which tools the surface offers; nil means all.
	offers func(*catalog.Entry) bool
	// fakes answers the calls that tools make.
	fakes func(*toolroom.Call) *toolroom.Result
	// approvalWait limits how long calls wait for a person; zero means the runner's limit.
	approvalWait time.Duration
}

// inside is what the children of a call add to it.
type inside struct {
	calls  atomic.Int64
	labels taint.Set // of what they have read
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

// WithClient is WithSink for a client that can answer questions: asker takes those of tools
// that are called with the context, and of tools that those call; without it they can ask
// nobody. approvalWait, if it is not zero, limits how long a call, and the calls that it
// makes, wait for a person, to less than the runner's limit. Then they fail with
// approval_required, and the same call runs once after the answer.
func WithClient(ctx context.Context, sink func(toolroom.Event), asker source.Asker, approvalWait time.Duration) context.Context {
	return withScope(ctx, func(s *scope) { s.sink, s.asker, s.approvalWait = sink, asker, approvalWait })
}

// WithFakes makes answer reply to all calls that tools make in calls with ctx: nothing runs,
// and there are no receipts of them.
func WithFakes(ctx context.Context, answer func(*toolroom.Call) *toolroom.Result) context.Context {
	return withScope(ctx, func(s *scope) { s.fakes = answer })
}

// limitWait returns the shorter of most and the limit of ctx.
func limitWait(ctx context.Context, most time.Duration) time.Duration {
	if own := scopeOf(ctx).approvalWait; own > 0 {
		return min(most, own)
	}
	return most
}

// WithTasks lets a call with ctx continue as a task: start is called, at most once, when
// its source has started work that continues by itself.
func WithTasks(ctx context.Context, start StartTask) context.Context {
	return withScope(ctx, func(s *scope) { s.tasks = start })
}

// WithSharedTaint makes calls with ctx share their taint labels, as the steps of a chain
// do: the result of one may be in the arguments of the next.
func WithSharedTaint(ctx context.Context) context.Context {
	if scopeOf(ctx).labels != nil {
		return ctx
	}
	return withScope(ctx, func(s *scope) { s.labels = &taint.Set{} })
}

// SurfaceOf returns the surface of the outermost call around ctx, or an empty text outside of
// calls.
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

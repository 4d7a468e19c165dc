// Package run implements the pipeline that every call passes. Read this file first: the
// driver is [Runner.run], and below it are the values that lead from one stage to the next.
// Each stage is in a file of its own:
//
//	resolve            resolve.go       which tool it is
//	validate input     arguments.go     whether the arguments fit
//	policy             policy.go        whether the caller may; isolation.go, effects.go, taint.go, spending.go
//	idempotency key    idempotency.go   whether the call ran before
//	approval           approval.go      whether a person permits it
//	execute            execute.go       the tool, inside the decorators of decorators.go
//	normalise          output.go        value and content
//	validate output    output.go        whether the value fits
//	shape              shape.go         truncation; redact.go, truncate.go
//	receipt            end.go           the result, the receipt and the last event
//
// What calls inherit from the call around them is in scope.go. Calls that outlive their
// request are in suspension.go.
//
// Every surface turns its input into a [toolroom.Call] and passes it to [Runner.Run],
// [Runner.Stream], [Runner.Batch], [Runner.Chain] or [Runner.Submit].
package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// Run runs one call to its end. It always returns a result; a failure is in
// Result.Error. Cancelling ctx stops the tool itself.
//
// A call made with a tool's ctx is a child of that tool's call and inherits its
// identity, deadline, budget, taint labels and trace.
func (r *Runner) Run(ctx context.Context, request toolroom.Call) *toolroom.Result {
	return r.run(ctx, request, ApprovalHooks{})
}

// RunHooked is Run with callbacks for the time that the call waits for a person.
func (r *Runner) RunHooked(ctx context.Context, request toolroom.Call, hooks ApprovalHooks) *toolroom.Result {
	return r.run(ctx, request, hooks)
}

// Refuse records a call that its surface could not turn into arguments, for example because
// a word on the command line names no argument. The result fails with why, or with the
// reason for which the tool cannot be resolved.
func (r *Runner) Refuse(ctx context.Context, request toolroom.Call, why error) *toolroom.Result {
	c := r.begin(ctx, request)
	c.refused = why
	return c.finish()
}

// run takes a call from its request to its result.
func (r *Runner) run(ctx context.Context, request toolroom.Call, hooks ApprovalHooks) *toolroom.Result {
	if around := scopeOf(ctx); around.fakes != nil && around.runner == r {
		return around.fakes(&request)
	}
	c := r.begin(ctx, request)
	c.hooks = hooks
	return c.finish()
}

func (c *call) finish() *toolroom.Result {
	at := &reached{}
	failed := c.guard(at)
	defer c.runner.executions.remove(c.tried)
	c.announce(nil)
	o := newOutcome(c, at)
	return o.end(o.shape(failed))
}

// notBegun returns the error of a call that did not reach its tool. A stage whose context
// ends fails with whatever it was doing then, which says nothing to a caller.
func (c *call) notBegun(err error) error {
	if known := (*toolroom.Error)(nil); errors.As(err, &known) {
		return err
	}
	code := toolroom.CodeOf(err)
	how, ended := map[toolroom.Code]string{toolroom.CodeCancelled: "was cancelled", toolroom.CodeTimeout: "timed out"}[code]
	if !ended {
		return err
	}
	e := toolroom.Errorf(code, "%s %s before it ran", c.tool, how)
	e.Cause = err
	return e
}

// stages takes the call through the stages before its result is shaped. It returns after
// the first that fails, or after claim if that finds the result of an earlier call.
func (c *call) stages(at *reached) (err error) {
	at.phase = toolroom.PhaseReceipt
	if err = c.admit(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseResolve
	if at.resolved, err = c.resolve(); err != nil {
		return err
	}
	c.announce(at.resolved)
	at.phase = toolroom.PhaseValidateInput
	if c.refused != nil {
		return c.refused
	}
	if err = at.resolved.validateInput(); err != nil {
		return err
	}
	at.phase = toolroom.PhasePolicy
	if at.decided, err = at.resolved.decide(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseExecute
	if at.claimed, err = at.decided.claim(); err != nil || at.claimed.replayed != nil {
		return err
	}
	at.phase = toolroom.PhaseApproval
	if at.approved, err = at.claimed.approve(); err != nil {
		return err
	}
	at.phase = toolroom.PhasePolicy
	if at.cleared, err = at.approved.spend(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseReceipt
	if err = at.cleared.intend(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseApproval
	if err = at.cleared.useApproval(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseExecute
	if at.ran, err = at.cleared.execute(); err != nil {
		return err
	}
	if err = at.ran.normalise(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseValidateOutput
	return at.ran.validateOutput()
}

// reached holds how far a call came. A stage that was not reached is nil. A stage that
// failed is set if it found out something that the receipt records.
type reached struct {
	phase    toolroom.Phase
	resolved *resolved
	decided  *decided
	claimed  *claimed
	approved *approved
	cleared  *cleared
	ran      *ran
}

// call is a call as it came in, with what it inherits. Every stage may read it.
type call struct {
	runner  *Runner
	ctx     context.Context //nolint:containedctx // it is the call's
	request toolroom.Call
	// tool is the spelling in the request until the call is resolved, then the canonical
	// id.
	tool string
	// around is the scope of the call around this one, nil if there is none.
	around *scope
	scope  scope // of the calls inside this one
	inside inside
	labels taint.Set // if the call shares none with others
	hooks  ApprovalHooks
	// background is the suspension whose job this call is, nil if it is no background
	// call; resume is the state from which the call's source resumes it.
	background *Suspension
	resume     json.RawMessage
	// suspension is set once another process can take over the call.
	suspension atomic.Pointer[Suspension]
	started    time.Time
	refused    error
	announced  bool // the event called was sent
	unrecorded bool // receipts cannot be stored
	arguments  arguments
	stream     stream
	tried      *execution // nil until the tool runs
}

// resolved is a call whose tool is known.
type resolved struct {
	*call
	entry *catalog.Entry
}

// decided is a call about which policy has decided.
type decided struct {
	*resolved
	effects  []toolroom.Effect // that the call is predicted to have
	decision policy.Decision
	// isolation is the least isolation in which the tool may run.
	isolation toolroom.Isolation
	taint     []string // the labels of the call, as receipts show them
	leaks     bool     // it would send private data after reading untrusted content
	costly    bool     // it would spend more than policy allows without asking
}

// claimed is a call that runs under its idempotency key, if it has one.
type claimed struct {
	*decided
	held bool // the call holds its key
	// begun says that an earlier process may have run the tool for this call.
	begun bool
	// asked is when the key was claimed by an earlier attempt that got no further than its
	// question.
	asked time.Time
	// replayed is the recorded result of an earlier call with the same key.
	replayed *toolroom.Result
}

// approved is a call that needs no more consent.
type approved struct {
	*claimed
	approval string        // the id of the approval or grant, empty if none was needed
	unused   string        // the approval that is still to be used
	waited   time.Duration // for people
}

// cleared is a call whose spending is recorded. It may run.
type cleared struct {
	*approved
	spent bool // amounts are recorded
}

// ran is a call whose tool was started.
type ran struct {
	*cleared
	began  time.Time
	sent   bool           // the call may have reached the tool
	output *source.Output // nil if there is none
	result draft
}

// draft is the result of a call while it is made.
type draft struct {
	toolroom.Result
	redacted bool // it holds no known secret any more
}

// begin returns the call of a request. A child call inherits from the call around it.
func (r *Runner) begin(ctx context.Context, request toolroom.Call) *call {
	carried := scopeOf(ctx)
	c := &call{runner: r, ctx: ctx, request: request, started: r.Now()}
	c.scope = *carried
	if carried.runner == r {
		c.around = carried
		c.request.Parent, c.request.Identity, c.request.Session = carried.id, carried.identity, carried.session
		c.request.Environment = carried.environment
		c.scope.depth++
	} else {
		c.scope.budget, c.scope.depth = request.Budget, 0
		c.stream.sink = carried.sink
		c.scope.releases = nil
		if r.Releases != nil {
			c.scope.releases = r.Releases.Snapshot()
		}
		if s := carried.suspension; s != nil && s.runner == r {
			c.background, c.resume = s, s.job.Resume
		}
	}
	c.request.Environment = cmp.Or(c.request.Environment, c.request.Identity.Environment)
	if c.scope.labels == nil {
		c.scope.labels = &c.labels
	}
	if c.request.ID == "" {
		c.request.ID = newID("call", c.started)
	}
	if c.request.Surface == "" {
		c.request.Surface = "go"
	}
	if c.around == nil {
		c.scope.surface = c.request.Surface
	}
	c.tool = c.request.Tool
	return c
}

// admit refuses a call if its receipt could not be stored, or if the call around it has
// no budget for it.
func (c *call) admit() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if bound := c.request.Identity.Environment; bound != "" && bound != c.request.Environment {
		e := toolroom.Errorf(toolroom.CodeDenied, "%s is bound to the environment %s, and may not call in %s", c.request.Identity, bound, c.request.Environment)
		e.Phase = toolroom.PhasePolicy
		return e
	}
	if c.runner.Receipts != nil {
		if err := c.runner.Receipts.Ready(); err != nil {
			e := toolroom.Errorf(toolroom.CodeInternal, "calls are refused while receipts cannot be stored: %w", err)
			e.Retryable = true
			c.unrecorded = true
			return e.WithHint("free disk space or repair the database, then call again; nothing was run")
		}
	}
	if c.scope.budget == nil {
		budget, err := toolroom.NewBudget(toolroom.BudgetLimits{})
		if err != nil {
			return err
		}
		c.scope.budget = budget
	}
	if c.around != nil {
		c.around.inside.calls.Add(1)
	}
	return c.takeCall()
}

// announce sends the event called, once. It waits for the tool to be resolved, because only
// then it is known which arguments are sensitive.
func (c *call) announce(found *resolved) {
	if c.announced {
		return
	}
	c.announced = true
	if c.heard() {
		c.emit(toolroom.Event{Kind: toolroom.EventCalled, Time: c.started, Arguments: c.recordedArguments(found, true)})
	}
}

// guard runs the stages. A panic is a bug in Toolroom or in a part that the room was
// configured with, and fails the call.
func (c *call) guard(at *reached) error {
	var failed error
	if err := panics.Catch(func() { failed = c.stages(at) }); err != nil {
		return c.panicked(err, at.phase)
	}
	if failed != nil && at.ran == nil {
		failed = c.notBegun(failed)
	}
	if failed != nil {
		return c.locate(failed, at.phase)
	}
	return nil
}

// try runs a part of the end of a call. If it panics, try returns the error of the call.
func (c *call) try(phase toolroom.Phase, do func()) error {
	if err := panics.Catch(do); err != nil {
		return c.panicked(err, phase)
	}
	return nil
}

// panicked logs a panic and returns the error with code internal for it.
func (c *call) panicked(err error, phase toolroom.Phase) *toolroom.Error {
	stack := ""
	if caught := (*panics.Error)(nil); errors.As(err, &caught) {
		stack = caught.Stack
	}
	c.runner.Log.Error("panic in the pipeline", "phase", phase, "tool", c.tool, "call", c.request.ID, "error", err, "stack", stack)
	e := toolroom.Errorf(toolroom.CodeInternal, "the call of %s failed inside Toolroom, in phase %s: %w", c.tool, phase, err)
	return c.locate(e.WithHint("this is a bug: report it with the stack trace that the log shows for call %s", c.request.ID), phase)
}

// locate returns err with its phase and tool set.
func (c *call) locate(err error, phase toolroom.Phase) *toolroom.Error {
	located := *toolroom.AsError(err)
	if located.Phase == "" {
		located.Phase = phase
	}
	if located.Tool == "" {
		located.Tool = c.tool
	}
	return &located
}

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
//	receipt            outcome.go       the result, the receipt and the last event
//
// What calls inherit from their parent call is in scope.go. Calls that outlive their
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
	c.refusal = why
	return c.complete()
}

// run takes a call from its request to its result.
func (r *Runner) run(ctx context.Context, request toolroom.Call, hooks ApprovalHooks) *toolroom.Result {
	if around := scopeOf(ctx); around.fakes != nil && around.runner == r {
		return around.fakes(&request)
	}
	c := r.begin(ctx, request)
	c.hooks = hooks
	return c.complete()
}

// complete takes the call through the stages and returns its result.
func (c *call) complete() *toolroom.Result {
	at := &progress{}
	failed := c.runStages(at)
	defer c.runner.executions.remove(c.execution)
	c.emitCalled(nil)
	o := newOutcome(c, at)
	return o.end(o.shape(failed))
}

// explainInterruption returns the error of a call that was cancelled or timed out before its
// tool ran. The failed stage returns the plain error of its context, which does not tell the
// caller that nothing was run. Other errors are returned unchanged.
func (c *call) explainInterruption(err error) error {
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
func (c *call) stages(at *progress) (err error) {
	at.phase = toolroom.PhaseReceipt
	if err = c.admit(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseResolve
	if at.resolved, err = c.resolve(); err != nil {
		return err
	}
	c.emitCalled(at.resolved)
	at.phase = toolroom.PhaseValidateInput
	if c.refusal != nil {
		return c.refusal
	}
	if err = at.resolved.validateInput(); err != nil {
		if at.resolved.mayBeAllowed() {
			return err
		}
		// Who may not call the tool at all learns that, and not what its arguments are.
		at.phase = toolroom.PhasePolicy
		var denial error
		at.decided, denial = at.resolved.decide()
		return cmp.Or(denial, err)
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
	if at.executed, err = at.cleared.execute(); err != nil {
		return err
	}
	if err = at.executed.normalise(); err != nil {
		return err
	}
	at.phase = toolroom.PhaseValidateOutput
	return at.executed.validateOutput()
}

// progress holds the values of the stages that a call has reached; the others are nil. The
// value of a failed stage is set if the receipt records something of it.
type progress struct {
	phase    toolroom.Phase
	resolved *resolvedCall
	decided  *decidedCall
	claimed  *claimedCall
	approved *approvedCall
	cleared  *clearedCall
	executed *executedCall
}

// call is a call as it came in, with the values that it inherits. Every stage may read it.
type call struct {
	runner  *Runner
	ctx     context.Context //nolint:containedctx // it is the call's
	request toolroom.Call
	// tool is the spelling in the request until the call is resolved, then the canonical
	// id.
	tool string
	// parent is the scope of the parent call, nil if there is none.
	parent *scope
	scope  scope // of the child calls
	tally  tally
	labels taint.Set // used if the call shares no labels with others
	hooks  ApprovalHooks
	// background is the suspension whose job this call is, nil if it is no background
	// call; resume is the state from which the call's source resumes it.
	background *Suspension
	resume     json.RawMessage
	// suspension is set once another process can take over the call.
	suspension    atomic.Pointer[Suspension]
	started       time.Time
	refusal       error // why the surface refused the call
	calledEmitted bool
	unrecorded    bool // receipts cannot be stored
	arguments     arguments
	stream        stream
	execution     *execution // nil until the tool runs
}

// resolvedCall is a call whose tool is known.
type resolvedCall struct {
	*call
	entry *catalog.Entry
}

// decidedCall is a call that policy has decided about.
type decidedCall struct {
	*resolvedCall
	effects  []toolroom.Effect // predicted
	decision policy.Decision
	// isolation is the least isolation in which the tool may run.
	isolation toolroom.Isolation
	taint     []string // the labels of the call, as receipts show them
	leaks     bool     // it would send private data after reading untrusted content
	costly    bool     // it would spend more than policy allows without asking
}

// claimedCall is a call that runs under its idempotency key, if it has one.
type claimedCall struct {
	*decidedCall
	holdsKey bool // the call holds its idempotency key
	// mayHaveRun reports that an earlier process may have run the tool for this call.
	mayHaveRun bool
	// earlierClaim is when an earlier attempt claimed the key, if that attempt ended while it
	// waited for approval.
	earlierClaim time.Time
	// replayed is the recorded result of an earlier call with the same key.
	replayed *toolroom.Result
}

// approvedCall is a call that needs no more consent.
type approvedCall struct {
	*claimedCall
	approval       string        // the id of the approval or grant, empty if none was needed
	unusedApproval string        // the id of an approval that is marked as used before the tool runs
	waited         time.Duration // for people
}

// clearedCall is a call whose spending is recorded. It may run.
type clearedCall struct {
	*approvedCall
	spent bool // its amounts are recorded
}

// executedCall is a call whose tool was started.
type executedCall struct {
	*clearedCall
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

// begin returns the call of a request. A child call inherits from its parent call.
func (r *Runner) begin(ctx context.Context, request toolroom.Call) *call {
	carried := scopeOf(ctx)
	c := &call{runner: r, ctx: ctx, request: request, started: r.Now()}
	c.scope = *carried
	if carried.runner == r {
		c.parent = carried
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
	if c.parent == nil {
		c.scope.surface = c.request.Surface
	}
	c.tool = reportedTool(c.request.Tool)
	return c
}

// admit refuses a call if its receipt could not be stored, or if its parent call has no
// budget left for it.
func (c *call) admit() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if bound := c.request.Identity.Environment; bound != "" && bound != c.request.Environment {
		e := toolroom.Errorf(toolroom.CodeDenied, "%s is bound to the environment %s, and may not call in %s", c.request.Identity, bound, c.request.Environment)
		e.Phase = toolroom.PhasePolicy
		return e
	}
	if err := c.checkNames(); err != nil {
		return err
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
	if c.parent != nil {
		c.parent.tally.calls.Add(1)
	}
	return c.chargeBudget()
}

// emitCalled emits the event called, unless that has been done. It is called once the tool is
// resolved, because only then the sensitive arguments are known.
func (c *call) emitCalled(found *resolvedCall) {
	if c.calledEmitted {
		return
	}
	c.calledEmitted = true
	if c.hasListeners() {
		c.emit(toolroom.Event{Kind: toolroom.EventCalled, Time: c.started, Arguments: c.recordedArguments(found, true)})
	}
}

// runStages runs the stages. A panic, which is a bug in Toolroom or in a part that the room was
// configured with, fails the call.
func (c *call) runStages(at *progress) error {
	var failed error
	if err := panics.Catch(func() { failed = c.stages(at) }); err != nil {
		return c.panicError(err, at.phase)
	}
	if failed != nil && at.executed == nil {
		failed = c.explainInterruption(failed)
	}
	if failed != nil {
		return c.withPhase(failed, at.phase)
	}
	return nil
}

// catchPanic runs do, a part of the end of a call, and returns the error of the call if do
// panics.
func (c *call) catchPanic(phase toolroom.Phase, do func()) error {
	if err := panics.Catch(do); err != nil {
		return c.panicError(err, phase)
	}
	return nil
}

// panicError logs a panic and returns an error with code internal.
func (c *call) panicError(err error, phase toolroom.Phase) *toolroom.Error {
	stack := ""
	if caught := (*panics.Error)(nil); errors.As(err, &caught) {
		stack = caught.Stack
	}
	c.runner.Log.Error("panic in the pipeline", "phase", phase, "tool", c.tool, "call", c.request.ID, "error", err, "stack", stack)
	e := toolroom.Errorf(toolroom.CodeInternal, "the call of %s failed inside Toolroom, in phase %s: %w", c.tool, phase, err)
	return c.withPhase(e.WithHint("this is a bug: report it with the stack trace that the log shows for call %s", c.request.ID), phase)
}

// withPhase returns a copy of err whose phase and tool are set.
func (c *call) withPhase(err error, phase toolroom.Phase) *toolroom.Error {
	located := *toolroom.AsError(err)
	if located.Phase == "" {
		located.Phase = phase
	}
	if located.Tool == "" {
		located.Tool = c.tool
	}
	return &located
}

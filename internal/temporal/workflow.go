package temporal

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// The names of what workers serve. Histories depend on them.
const (
	programWorkflow = "toolroom.program"
	chainWorkflow   = "toolroom.chain"

	programActivity = "toolroom.run"
	callActivity    = "toolroom.call"
	factsActivity   = "toolroom.facts"
	answerActivity  = "toolroom.answered"

	callUpdate  = "call"
	awaitUpdate = "await"
	madeQuery   = "made"
	waitsQuery  = "waits"
	// answered is the signal that a person has answered; its argument is the
	// approval's id. It only wakes: the answer is read where approvals are kept.
	answered = "answered"
)

// refusal is the type of errors by which a workflow refuses its order.
const refusal = "toolroom.refused"

const (
	// longest is how long a workflow may live, people included.
	longest = 24 * time.Hour
	// fresh is how old an order may be when its workflow begins; workers that
	// were away may come back within it.
	fresh = time.Hour
	// beat is how long a worker may be silent before it is taken for dead.
	beat = 10 * time.Second
	// lookAgain is how often an approval is looked at whose signal was lost.
	lookAgain = 30 * time.Second
	// tries is how often an activity is begun on another worker.
	tries = 5
)

// order is what a workflow is asked to do.
type order struct {
	// Workflow is the id of the workflow that it was issued for, and Issued
	// when: a copy of a recorded order begins nothing.
	Workflow string        `json:"workflow"`
	Issued   time.Time     `json:"issued"`
	Call     toolroom.Call `json:"call"`
	Steps    []run.Step    `json:"steps,omitempty"`
}

func newWorkflowID(at time.Time) string {
	return "toolroom-" + at.UTC().Format("20060102T150405") + "-" + random()
}

// facts are what a workflow needs to know of a tool.
type facts struct {
	Guarantee toolroom.Guarantee `json:"guarantee"`
	// Timeout is the most that a call may take.
	Timeout time.Duration `json:"timeout"`
}

// answer is what became of a call: it ended, or it waits for a person.
type answer struct {
	Result *toolroom.Result `json:"result"`
	// Approval is the question that it waits for.
	Approval string `json:"approval,omitempty"`
}

// errand is the state of one workflow. Its methods run in the workflow.
type errand struct {
	order    order
	answered map[string]bool // approvals that a person has answered
	waits    map[string]toolroom.ApprovalNotice
	made     []string // ids of calls, in the order in which they came
}

func begin(ctx workflow.Context, o order) (*errand, error) {
	info := workflow.GetInfo(ctx)
	switch {
	case o.Workflow != info.WorkflowExecution.ID:
		return nil, temporal.NewNonRetryableApplicationError("the order is a copy: it was issued for "+o.Workflow, refusal, nil)
	case info.WorkflowStartTime.Sub(o.Issued) > fresh || o.Issued.Sub(info.WorkflowStartTime) > fresh:
		return nil, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("the order was issued at %s, and the workflow began at %s: more than %s apart", o.Issued, info.WorkflowStartTime, fresh), refusal, nil)
	}
	e := &errand{order: o, answered: map[string]bool{}, waits: map[string]toolroom.ApprovalNotice{}}
	if e.order.Call.Session == "" {
		// What one step has read is in reach of the next.
		e.order.Call.Session = o.Workflow
	}
	err := workflow.SetQueryHandler(ctx, waitsQuery, func() (map[string]toolroom.ApprovalNotice, error) { return e.waits, nil })
	if err != nil {
		return nil, err
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		signals := workflow.GetSignalChannel(ctx, answered)
		for {
			var approval string
			if !signals.Receive(ctx, &approval) {
				return
			}
			e.answered[approval] = true
		}
	})
	return e, nil
}

// program runs a program in one activity. The program's calls come back as
// updates, each of which is an activity of its own; when the program's worker
// dies, the program begins anew on another one, and the calls that it has made
// are answered from the history.
func program(ctx workflow.Context, o order) (*toolroom.Result, error) {
	e, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		workflow.SetQueryHandler(ctx, madeQuery, func() ([]string, error) { return e.made, nil }),
		workflow.SetUpdateHandler(ctx, callUpdate, func(ctx workflow.Context, id string, call toolroom.Call) (*answer, error) {
			e.made = append(e.made, id)
			return e.call(ctx, id, call), nil
		}),
		workflow.SetUpdateHandler(ctx, awaitUpdate, func(ctx workflow.Context, id string, call toolroom.Call, approval string) (*answer, error) {
			return e.answer(ctx, id, call, approval), nil
		}),
	)
	if err != nil {
		return nil, err
	}
	running := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: longest, HeartbeatTimeout: beat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: tries},
	})
	var result *toolroom.Result
	err = workflow.ExecuteActivity(running, programActivity, e.order).Get(ctx, &result)
	ending, _ := workflow.NewDisconnectedContext(ctx)
	if werr := workflow.Await(ending, func() bool { return workflow.AllHandlersFinished(ctx) }); err == nil {
		err = werr
	}
	if err == nil {
		err = ctx.Err() // a program may well have ended by itself over a call that was cancelled
	}
	return result, err
}

// chain runs a chain; every step is an activity.
func chain(ctx workflow.Context, o order) (*run.ChainResult, error) {
	e, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	step := 0
	result := run.ChainThrough(e.order.Call, o.Steps, func(call toolroom.Call, retries int) *toolroom.Result {
		for pause := 100 * time.Millisecond; ; pause *= 2 {
			step++
			id := fmt.Sprint("step-", step)
			a := e.call(ctx, id, call)
			if a.Approval != "" {
				a = e.answer(ctx, id, call, a.Approval)
			}
			if a.Result.Error == nil || retries <= 0 || a.Result.Status == toolroom.StatusDenied || workflow.Sleep(ctx, pause) != nil {
				return a.Result
			}
			retries--
		}
	})
	return result, ctx.Err()
}

// call makes one call as an activity, which is begun again on another worker
// only as far as the tool's guarantee allows.
func (e *errand) call(ctx workflow.Context, id string, call toolroom.Call) *answer {
	call.Identity, call.Session, call.Parent = e.order.Call.Identity, e.order.Call.Session, e.order.Call.Parent
	call.NoWait = true
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: tries},
	})
	var known facts
	if err := workflow.ExecuteLocalActivity(local, factsActivity, call).Get(ctx, &known); err != nil {
		return &answer{Result: broken(call, toolroom.EffectsNone, err)}
	}
	o := workflow.ActivityOptions{
		StartToCloseTimeout: known.Timeout, HeartbeatTimeout: beat, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: tries},
	}
	effects := toolroom.EffectsUnknown
	switch known.Guarantee {
	case toolroom.GuaranteeSafe:
		effects = toolroom.EffectsNone
	case toolroom.GuaranteeKeyed:
		if call.IdempotencyKey == "" {
			call.IdempotencyKey = e.order.Workflow + "/" + id
		}
	default:
		o.RetryPolicy.MaximumAttempts = 1
	}
	a := &answer{}
	if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), callActivity, call).Get(ctx, a); err != nil {
		return &answer{Result: broken(call, effects, err)}
	}
	if a.Approval != "" {
		details := a.Result.Error
		e.waits[a.Approval] = toolroom.ApprovalNotice{ID: a.Approval, State: "pending", Reason: details.Message}
	}
	return a
}

// answer waits until a person has answered, and makes the call then.
func (e *errand) answer(ctx workflow.Context, id string, call toolroom.Call, approval string) *answer {
	defer delete(e.waits, approval)
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: tries},
	})
	for !e.answered[approval] {
		woken, err := workflow.AwaitWithTimeout(ctx, lookAgain, func() bool { return e.answered[approval] })
		if err == nil && !woken {
			err = workflow.ExecuteLocalActivity(local, answerActivity, approval).Get(ctx, &woken)
		}
		if err != nil {
			return &answer{Result: broken(call, toolroom.EffectsNone, err)}
		}
		e.answered[approval] = woken
	}
	call.Approval = approval
	a := e.call(ctx, id, call)
	if a.Approval != "" {
		delete(e.waits, a.Approval)
	}
	return a
}

// broken is the result of a call whose activity did not end by itself.
func broken(call toolroom.Call, effects toolroom.Effects, err error) *toolroom.Result {
	var e *toolroom.Error
	var timeout *temporal.TimeoutError
	switch {
	case temporal.IsCanceledError(err):
		e = toolroom.Errorf(toolroom.CodeCancelled, "the workflow was cancelled")
	case errors.As(err, &timeout):
		e = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the worker that called %s was lost (%s)", call.Tool, timeout.TimeoutType())
		e.Retryable = effects == toolroom.EffectsNone
		if effects == toolroom.EffectsUnknown {
			e = e.WithHint("it may have acted: look before you repeat it")
		}
	default:
		e = toolroom.Errorf(toolroom.CodeInternal, "the call of %s was lost: %v", call.Tool, err)
	}
	return &toolroom.Result{Tool: call.Tool, Status: e.Code.Info().Status, Effects: effects, Error: e}
}

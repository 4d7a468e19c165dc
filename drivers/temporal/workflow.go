package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// The names of workflows, activities, updates, queries and signals. Histories depend
// on them.
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
	// answered is the signal that a person has answered. Its argument is the
	// approval's id. It only wakes the workflow, which then reads the answer from
	// the store of approvals.
	answered = "answered"
)

// refusal is the type of the error with which a workflow refuses its order.
const refusal = "toolroom.refused"

const (
	// maxDuration limits a workflow, including the time in which it waits for people.
	maxDuration = 24 * time.Hour
	// maxOrderAge is the maximum age of an order when its workflow starts. If all
	// workers were down, one may come back within it.
	maxOrderAge = time.Hour
	// heartbeatTimeout is how long an activity may send no heartbeat before its
	// worker counts as dead.
	heartbeatTimeout = 10 * time.Second
	// approvalPoll is the interval at which an approval is polled, in case its
	// signal was lost.
	approvalPoll = 30 * time.Second
	// maxAttempts is the maximum number of attempts of an activity, each of which
	// may be on another worker.
	maxAttempts = 5
)

// order is the input of a workflow.
type order struct {
	// Workflow is the id of the workflow for which the order was issued, and Issued
	// the time. Because of them, a copy of a recorded order is refused.
	Workflow string          `json:"workflow"`
	Issued   time.Time       `json:"issued"`
	Call     toolroom.Call   `json:"call"`
	Steps    []toolroom.Step `json:"steps,omitempty"`
}

func newWorkflowID(at time.Time) string {
	return "toolroom-" + at.UTC().Format("20060102T150405") + "-" + random()
}

// facts are the properties of a tool on which a workflow depends.
type facts struct {
	Guarantee toolroom.Guarantee `json:"guarantee"`
	// Timeout limits a call.
	Timeout time.Duration `json:"timeout"`
}

// answer is the outcome of a call: it ended, or it waits for a person.
type answer struct {
	Result *toolroom.Result `json:"result"`
	// Approval is the id of the approval for which it waits.
	Approval string `json:"approval,omitempty"`
}

// state is the state of one workflow. Its methods run in the workflow.
type state struct {
	order    order
	answered map[string]bool // approvals that a person has answered
	waits    map[string]toolroom.ApprovalNotice
	made     []string // ids of calls, in order of arrival
}

func begin(ctx workflow.Context, o order) (*state, error) {
	info := workflow.GetInfo(ctx)
	switch {
	case o.Workflow != info.WorkflowExecution.ID:
		return nil, temporal.NewNonRetryableApplicationError("the order was issued for another workflow: "+o.Workflow, refusal, nil)
	case info.WorkflowStartTime.Sub(o.Issued) > maxOrderAge || o.Issued.Sub(info.WorkflowStartTime) > maxOrderAge:
		return nil, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("the order was issued at %s, and the workflow began at %s: more than %s apart", o.Issued, info.WorkflowStartTime, maxOrderAge), refusal, nil)
	}
	e := &state{order: o, answered: map[string]bool{}, waits: map[string]toolroom.ApprovalNotice{}}
	if e.order.Call.Session == "" {
		// Steps share a session, so that a step's taint labels hold for the next.
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

// program runs a program in one activity. The program makes its calls as updates of the
// workflow, each of which is an activity of its own. If the program's worker dies, the
// program starts again on another worker, and gets the results of the calls that it has
// already made from the history.
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
		StartToCloseTimeout: maxDuration, HeartbeatTimeout: heartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: maxAttempts},
	})
	var result *toolroom.Result
	err = workflow.ExecuteActivity(running, programActivity, e.order).Get(ctx, &result)
	ending, _ := workflow.NewDisconnectedContext(ctx)
	if werr := workflow.Await(ending, func() bool { return workflow.AllHandlersFinished(ctx) }); err == nil {
		err = werr
	}
	if err == nil {
		err = ctx.Err() // because a call was cancelled, the program may have ended without an error
	}
	return result, err
}

// chain runs a chain. Each step is an activity.
func chain(ctx workflow.Context, o order) (*toolroom.ChainResult, error) {
	e, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	step := 0
	result := run.ChainThrough(context.Background(), e.order.Call, o.Steps, func(call toolroom.Call, retries int) *toolroom.Result {
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

// call makes one call as an activity. After a failure of its worker, the activity
// starts again on another worker only if the tool's guarantee allows it.
func (e *state) call(ctx workflow.Context, id string, call toolroom.Call) *answer {
	call.Identity, call.Session, call.Parent = e.order.Call.Identity, e.order.Call.Session, e.order.Call.Parent
	call.NoWait = true
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: maxAttempts},
	})
	var known facts
	if err := workflow.ExecuteLocalActivity(local, factsActivity, call).Get(ctx, &known); err != nil {
		return &answer{Result: broken(call, toolroom.EffectsNone, err)}
	}
	o := workflow.ActivityOptions{
		StartToCloseTimeout: known.Timeout, HeartbeatTimeout: heartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: maxAttempts},
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

// answer waits until a person has answered, and then makes the call.
func (e *state) answer(ctx workflow.Context, id string, call toolroom.Call, approval string) *answer {
	defer delete(e.waits, approval)
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: maxAttempts},
	})
	for !e.answered[approval] {
		woken, err := workflow.AwaitWithTimeout(ctx, approvalPoll, func() bool { return e.answered[approval] })
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

// broken returns the result of a call whose activity failed.
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
			e = e.WithHint("it may have had effects: check before you repeat it")
		}
	default:
		e = toolroom.Errorf(toolroom.CodeInternal, "the call of %s was lost: %v", call.Tool, err)
	}
	return &toolroom.Result{Tool: call.Tool, Status: e.Code.Info().Status, Effects: effects, Error: e}
}

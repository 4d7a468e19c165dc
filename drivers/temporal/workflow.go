package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	// orderSignal is the signal with the order, which a workflow awaits.
	orderSignal = "order"
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
	// orderTimeout is how long a workflow waits for its order. Whoever started it sends
	// the order at once.
	orderTimeout = time.Minute
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

// order is what a workflow is to do.
type order struct {
	Call  toolroom.Call   `json:"call"`
	Steps []toolroom.Step `json:"steps,omitempty"`
}

// answerSuffix follows the id of a call in the id of what makes it once a person has
// answered.
const answerSuffix = "-answer"

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
	id, run  string
	order    order
	answered map[string]bool // approvals that a person has answered
	waits    map[string]toolroom.ApprovalNotice
	made     []string // ids of calls, in order of arrival
}

// begin waits for the order.
func begin(ctx workflow.Context) (*state, error) {
	at := workflow.GetInfo(ctx).WorkflowExecution
	e := &state{id: at.ID, run: at.RunID, answered: map[string]bool{}, waits: map[string]toolroom.ApprovalNotice{}}
	err := workflow.SetQueryHandler(ctx, waitsQuery, func() (note[map[string]toolroom.ApprovalNotice], error) {
		return note[map[string]toolroom.ApprovalNotice]{e.run, waitsPlace, e.waits}, nil
	})
	if err != nil {
		return nil, err
	}
	if e.order, err = e.await(ctx); err != nil {
		return nil, err
	}
	if e.order.Call.Session == "" {
		// Steps share a session, so that a step's taint labels hold for the next.
		e.order.Call.Session = e.id
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

// await returns the first order for this run. Others, which somebody has recorded, are
// ignored.
func (e *state) await(ctx workflow.Context) (order, error) {
	orders := workflow.GetSignalChannel(ctx, orderSignal)
	for end := workflow.Now(ctx).Add(orderTimeout); ; {
		var n note[order]
		came, _ := orders.ReceiveWithTimeout(ctx, end.Sub(workflow.Now(ctx)), &n)
		if err := ctx.Err(); err != nil {
			return order{}, err
		}
		if !came {
			return order{}, temporal.NewNonRetryableApplicationError(
				"no order came within "+orderTimeout.String()+": whoever started the workflow ended, or has another version or secret", refusal, nil)
		}
		if o, err := n.read(e.run, orderPlace); err == nil {
			return o, nil
		}
	}
}

// program runs a program in one activity. The program makes its calls as updates of the
// workflow, each of which is an activity of its own. If the program's worker dies, the
// program starts again on another worker, and gets the results of the calls that it has
// already made from the history.
func program(ctx workflow.Context) (none note[*toolroom.Result], err error) {
	e, err := begin(ctx)
	if err != nil {
		return none, err
	}
	err = errors.Join(
		workflow.SetQueryHandler(ctx, madeQuery, func() (note[[]string], error) { return note[[]string]{e.run, madePlace, e.made}, nil }),
		e.handle(ctx, callUpdate, func(ctx workflow.Context, id string, call toolroom.Call) *answer {
			e.made = append(e.made, id)
			return e.call(ctx, id, id, call)
		}),
		e.handle(ctx, awaitUpdate, func(ctx workflow.Context, id string, call toolroom.Call) *answer {
			return e.answer(ctx, strings.TrimSuffix(id, answerSuffix), call, call.Approval)
		}),
	)
	if err != nil {
		return none, err
	}
	running := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: maxDuration, HeartbeatTimeout: heartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: maxAttempts},
	})
	var n note[*toolroom.Result]
	err = workflow.ExecuteActivity(running, programActivity, note[toolroom.Call]{e.run, startPlace, e.order.Call}).Get(ctx, &n)
	ending, _ := workflow.NewDisconnectedContext(ctx)
	if werr := workflow.Await(ending, func() bool { return workflow.AllHandlersFinished(ctx) }); err == nil {
		err = werr
	}
	if err == nil {
		err = ctx.Err() // because a call was cancelled, the program may have ended without an error
	}
	if err != nil {
		return none, err
	}
	result, err := n.read(e.run, endPlace)
	return note[*toolroom.Result]{e.run, resultPlace, result}, err
}

// handle registers the handler of an update. Updates that were not sent for this run under
// their id are rejected, and not recorded.
func (e *state) handle(ctx workflow.Context, name string, f func(ctx workflow.Context, id string, call toolroom.Call) *answer) error {
	read := func(ctx workflow.Context, in note[toolroom.Call]) (id string, call toolroom.Call, err error) {
		id = workflow.GetCurrentUpdateInfo(ctx).ID
		call, err = in.read(e.run, askPlace+id)
		return id, call, err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, name, func(ctx workflow.Context, in note[toolroom.Call]) (note[*answer], error) {
		id, call, err := read(ctx, in)
		if err != nil {
			return note[*answer]{}, err
		}
		return note[*answer]{e.run, tellPlace + id, f(ctx, id, call)}, nil
	}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, in note[toolroom.Call]) error {
		_, _, err := read(ctx, in)
		return err
	}})
}

// chain runs a chain. Each step is an activity.
func chain(ctx workflow.Context) (none note[*toolroom.ChainResult], err error) {
	e, err := begin(ctx)
	if err != nil {
		return none, err
	}
	step := 0
	result := run.RunSteps(context.Background(), e.order.Call, e.order.Steps, func(call toolroom.Call, retries int) *toolroom.Result {
		for pause := 100 * time.Millisecond; ; pause *= 2 {
			step++
			id := fmt.Sprint("step-", step)
			a := e.call(ctx, id, id, call)
			if a.Approval != "" {
				a = e.answer(ctx, id, call, a.Approval)
			}
			if a.Result.Error == nil || retries <= 0 || a.Result.Status == toolroom.StatusDenied || workflow.Sleep(ctx, pause) != nil {
				return a.Result
			}
			retries--
		}
	})
	return note[*toolroom.ChainResult]{e.run, resultPlace, result}, ctx.Err()
}

// call makes one call as the activity named as. After a failure of its worker, the activity
// starts again on another worker only if the tool's guarantee allows it.
func (e *state) call(ctx workflow.Context, id, as string, call toolroom.Call) *answer {
	call.Identity, call.Session, call.Parent = e.order.Call.Identity, e.order.Call.Session, e.order.Call.Parent
	call.Environment, call.NoWait = e.order.Call.Environment, true
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: maxAttempts},
	})
	var told note[facts]
	err := workflow.ExecuteLocalActivity(local, factsActivity, as, call).Get(ctx, &told)
	var known facts
	if err == nil {
		known, err = told.read(e.run, factsPlace+as)
	}
	if err != nil {
		return &answer{Result: broken(call, toolroom.EffectsNone, err)}
	}
	o := workflow.ActivityOptions{
		ActivityID:          as,
		StartToCloseTimeout: known.Timeout, HeartbeatTimeout: heartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: maxAttempts},
	}
	effects := toolroom.EffectsUnknown
	switch known.Guarantee {
	case toolroom.GuaranteeSafe:
		effects = toolroom.EffectsNone
	case toolroom.GuaranteeKeyed:
	default:
		o.RetryPolicy.MaximumAttempts = 1
	}
	if call.IdempotencyKey == "" {
		// Temporal starts an activity again after its worker died, and somebody without the
		// secret can schedule it again.
		call.IdempotencyKey = e.run + "/" + id
	}
	var n note[*answer]
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), callActivity, note[toolroom.Call]{e.run, callPlace + as, call}).Get(ctx, &n)
	var a *answer
	if err == nil {
		a, err = n.read(e.run, donePlace+as)
	}
	if err != nil {
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
			var n note[bool]
			err = workflow.ExecuteLocalActivity(local, answerActivity, approval).Get(ctx, &n)
			if err == nil {
				woken, err = n.read(e.run, answeredPlace+approval)
			}
		}
		if err != nil {
			return &answer{Result: broken(call, toolroom.EffectsNone, err)}
		}
		e.answered[approval] = woken
	}
	call.Approval = approval
	a := e.call(ctx, id, id+answerSuffix, call)
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
		e = toolroom.Errorf(toolroom.CodeInternal, "the call of %s was lost: %s", call.Tool, text(err))
	}
	return &toolroom.Result{Tool: call.Tool, Status: e.Code.Info().Status, Effects: effects, Error: e}
}

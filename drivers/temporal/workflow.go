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

	programActivity    = "toolroom.run"
	callActivity       = "toolroom.call"
	propertiesActivity = "toolroom.facts"
	answeredActivity   = "toolroom.answered"

	callUpdate     = "call"
	answerUpdate   = "await"
	madeCallsQuery = "made"
	approvalsQuery = "waits"
	// orderSignal carries the order for which a workflow waits.
	orderSignal = "order"
	// answeredSignal says that a person has answered. Its argument is the approval's id.
	// It only wakes the workflow: the repeated call reads the answer from the approval
	// store.
	answeredSignal = "answered"
)

// refusedType is the type of the error of a workflow or activity that rejects its input.
const refusedType = "toolroom.refused"

const (
	// maxDuration limits a workflow, including the time in which it waits for people.
	maxDuration = 24 * time.Hour
	// orderTimeout is how long a workflow waits for its order, which is sent right after
	// the start.
	orderTimeout = time.Minute
	// heartbeatTimeout is the time without a heartbeat after which an activity's worker
	// is considered dead.
	heartbeatTimeout = 10 * time.Second
	// approvalPoll is the interval at which an approval is polled, in case its
	// signal was lost.
	approvalPoll = 30 * time.Second
	// maxAttempts is the maximum number of attempts of an activity, each of which
	// may be on another worker.
	maxAttempts = 5
)

// order is the call or chain that a workflow runs, or the call that an activity makes.
type order struct {
	Call toolroom.Call `json:"call"`
	// Token is that of the identity of Call, which JSON leaves out.
	Token string          `json:"token,omitempty"`
	Steps []toolroom.Step `json:"steps,omitempty"`
}

func newOrder(call toolroom.Call, steps []toolroom.Step) order {
	return order{Call: call, Token: call.Identity.Token, Steps: steps}
}

// readOrder returns the order in a message.
func readOrder(m message[order], run, place string) (order, error) {
	o, err := m.read(run, place)
	o.Call.Identity.Token = o.Token
	return o, err
}

// answerSuffix is appended to the id of a call to make the id of the update and activity that
// repeat it after a person has answered.
const answerSuffix = "-answer"

func newWorkflowID(at time.Time) string {
	return "toolroom-" + at.UTC().Format("20060102T150405") + "-" + randomSuffix()
}

// toolProperties are the properties of a tool on which a workflow depends.
type toolProperties struct {
	Guarantee toolroom.Guarantee `json:"guarantee"`
	// Timeout limits a call.
	Timeout time.Duration `json:"timeout"`
}

// callOutcome is the outcome of a call: its result, or the approval for which it waits.
type callOutcome struct {
	Result *toolroom.Result `json:"result"`
	// Approval is the id of the approval, if the call waits for a person.
	Approval string `json:"approval,omitempty"`
}

// workflowState is the state of one workflow. Its methods run in the workflow.
type workflowState struct {
	id, run  string
	order    order
	answered map[string]bool // approvals that a person has answered
	pending  map[string]toolroom.ApprovalNotice
	made     []string // ids of calls, in order of arrival
}

// newState starts a workflow: it registers the query for pending approvals, and waits for the
// order.
func newState(ctx workflow.Context) (*workflowState, error) {
	at := workflow.GetInfo(ctx).WorkflowExecution
	s := &workflowState{id: at.ID, run: at.RunID, answered: map[string]bool{}, pending: map[string]toolroom.ApprovalNotice{}}
	err := workflow.SetQueryHandler(ctx, approvalsQuery, func() (message[map[string]toolroom.ApprovalNotice], error) {
		return message[map[string]toolroom.ApprovalNotice]{s.run, approvalsPlace, s.pending}, nil
	})
	if err != nil {
		return nil, err
	}
	if s.order, err = s.awaitOrder(ctx); err != nil {
		return nil, err
	}
	if s.order.Call.Session == "" {
		// Steps share a session, so that a step's taint labels hold for the next.
		s.order.Call.Session = s.id
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		signals := workflow.GetSignalChannel(ctx, answeredSignal)
		for {
			var approval string
			if !signals.Receive(ctx, &approval) {
				return
			}
			s.answered[approval] = true
		}
	})
	return s, nil
}

// awaitOrder returns the first order for this run. It ignores orders for other runs, which
// somebody has recorded and sent again.
func (s *workflowState) awaitOrder(ctx workflow.Context) (order, error) {
	orders := workflow.GetSignalChannel(ctx, orderSignal)
	for end := workflow.Now(ctx).Add(orderTimeout); ; {
		var n message[order]
		received, _ := orders.ReceiveWithTimeout(ctx, end.Sub(workflow.Now(ctx)), &n)
		if err := ctx.Err(); err != nil {
			return order{}, err
		}
		if !received {
			return order{}, temporal.NewNonRetryableApplicationError(
				"no order came within "+orderTimeout.String()+": whoever started the workflow ended, or has another version or secret", refusedType, nil)
		}
		if o, err := readOrder(n, s.run, orderPlace); err == nil {
			return o, nil
		}
	}
}

// runProgram runs a program in one activity. The program makes its calls as updates of the
// workflow, each of which is an activity of its own. If the program's worker dies, the
// program starts again on another worker, and gets the results of the calls that it has
// already made from the history.
func runProgram(ctx workflow.Context) (none message[*toolroom.Result], err error) {
	s, err := newState(ctx)
	if err != nil {
		return none, err
	}
	err = errors.Join(
		workflow.SetQueryHandler(ctx, madeCallsQuery, func() (message[[]string], error) { return message[[]string]{s.run, madeCallsPlace, s.made}, nil }),
		s.handleUpdate(ctx, callUpdate, func(ctx workflow.Context, id string, call toolroom.Call) *callOutcome {
			s.made = append(s.made, id)
			return s.makeCall(ctx, id, id, call)
		}),
		s.handleUpdate(ctx, answerUpdate, func(ctx workflow.Context, id string, call toolroom.Call) *callOutcome {
			return s.callAfterAnswer(ctx, strings.TrimSuffix(id, answerSuffix), call, call.Approval)
		}),
	)
	if err != nil {
		return none, err
	}
	running := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: maxDuration, HeartbeatTimeout: heartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: maxAttempts},
	})
	var n message[*toolroom.Result]
	err = workflow.ExecuteActivity(running, programActivity, message[order]{s.run, programPlace, newOrder(s.order.Call, nil)}).Get(ctx, &n)
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
	result, err := n.read(s.run, programResultPlace)
	return message[*toolroom.Result]{s.run, resultPlace, result}, err
}

// handleUpdate registers f as the handler of an update. Updates that were not made for this run
// and their id are rejected, and not recorded.
func (s *workflowState) handleUpdate(ctx workflow.Context, name string, f func(ctx workflow.Context, id string, call toolroom.Call) *callOutcome) error {
	read := func(ctx workflow.Context, in message[toolroom.Call]) (id string, call toolroom.Call, err error) {
		id = workflow.GetCurrentUpdateInfo(ctx).ID
		call, err = in.read(s.run, updatePlace+id)
		return id, call, err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, name, func(ctx workflow.Context, in message[toolroom.Call]) (message[*callOutcome], error) {
		id, call, err := read(ctx, in)
		if err != nil {
			return message[*callOutcome]{}, err
		}
		return message[*callOutcome]{s.run, updateResultPlace + id, f(ctx, id, call)}, nil
	}, workflow.UpdateHandlerOptions{Validator: func(ctx workflow.Context, in message[toolroom.Call]) error {
		_, _, err := read(ctx, in)
		return err
	}})
}

// runChain runs a chain. Each step is a call, in an activity of its own.
func runChain(ctx workflow.Context) (none message[*toolroom.ChainResult], err error) {
	s, err := newState(ctx)
	if err != nil {
		return none, err
	}
	step := 0
	result := run.RunSteps(context.Background(), s.order.Call, s.order.Steps, func(call toolroom.Call, retries int) *toolroom.Result {
		for pause := 100 * time.Millisecond; ; pause *= 2 {
			step++
			id := fmt.Sprint("step-", step)
			a := s.makeCall(ctx, id, id, call)
			if a.Approval != "" {
				a = s.callAfterAnswer(ctx, id, call, a.Approval)
			}
			if a.Result.Error == nil || retries <= 0 || a.Result.Status == toolroom.StatusDenied || workflow.Sleep(ctx, pause) != nil {
				return a.Result
			}
			retries--
		}
	})
	return message[*toolroom.ChainResult]{s.run, resultPlace, result}, ctx.Err()
}

// makeCall makes one call in the activity with the id activityID. If its worker fails, the
// activity starts again on another worker only if the tool's guarantee allows it. id is the id of
// the call, which is the same before and after an approval.
func (s *workflowState) makeCall(ctx workflow.Context, id, activityID string, call toolroom.Call) *callOutcome {
	call.Identity, call.Session, call.Parent = s.order.Call.Identity, s.order.Call.Session, s.order.Call.Parent
	call.Environment, call.NoWait = s.order.Call.Environment, true
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: maxAttempts},
	})
	var p message[toolProperties]
	err := workflow.ExecuteLocalActivity(local, propertiesActivity, activityID, call).Get(ctx, &p)
	var tool toolProperties
	if err == nil {
		tool, err = p.read(s.run, propertiesPlace+activityID)
	}
	if err != nil {
		return &callOutcome{Result: lostCallResult(call, toolroom.EffectsNone, err)}
	}
	o := workflow.ActivityOptions{
		ActivityID:          activityID,
		StartToCloseTimeout: tool.Timeout, HeartbeatTimeout: heartbeatTimeout, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: maxAttempts},
	}
	effects := toolroom.EffectsUnknown
	switch tool.Guarantee {
	case toolroom.GuaranteeSafe:
		effects = toolroom.EffectsNone
	case toolroom.GuaranteeKeyed:
	default:
		o.RetryPolicy.MaximumAttempts = 1
	}
	if call.IdempotencyKey == "" {
		// Temporal starts an activity again after its worker has died, and anybody with access
		// to the namespace can schedule it again.
		call.IdempotencyKey = s.run + "/" + id
	}
	var n message[*callOutcome]
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), callActivity, message[order]{s.run, activityPlace + activityID, newOrder(call, nil)}).Get(ctx, &n)
	var a *callOutcome
	if err == nil {
		a, err = n.read(s.run, activityResultPlace+activityID)
	}
	if err != nil {
		return &callOutcome{Result: lostCallResult(call, effects, err)}
	}
	if a.Approval != "" {
		details := a.Result.Error
		s.pending[a.Approval] = toolroom.ApprovalNotice{ID: a.Approval, State: "pending", Reason: details.Message}
	}
	return a
}

// callAfterAnswer waits until a person has answered the approval, and then makes the call.
func (s *workflowState) callAfterAnswer(ctx workflow.Context, id string, call toolroom.Call, approval string) *callOutcome {
	defer delete(s.pending, approval)
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: maxAttempts},
	})
	for !s.answered[approval] {
		woken, err := workflow.AwaitWithTimeout(ctx, approvalPoll, func() bool { return s.answered[approval] })
		if err == nil && !woken {
			var n message[bool]
			err = workflow.ExecuteLocalActivity(local, answeredActivity, approval).Get(ctx, &n)
			if err == nil {
				woken, err = n.read(s.run, answeredPlace+approval)
			}
		}
		if err != nil {
			return &callOutcome{Result: lostCallResult(call, toolroom.EffectsNone, err)}
		}
		s.answered[approval] = woken
	}
	call.Approval = approval
	a := s.makeCall(ctx, id, id+answerSuffix, call)
	if a.Approval != "" {
		delete(s.pending, a.Approval)
	}
	return a
}

// lostCallResult returns the result of a call whose activity failed with err.
func lostCallResult(call toolroom.Call, effects toolroom.Effects, err error) *toolroom.Result {
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
		e = toolroom.Errorf(toolroom.CodeInternal, "the call of %s was lost: %s", call.Tool, errorText(err))
	}
	return &toolroom.Result{Tool: call.Tool, Status: e.Code.Info().Status, Effects: effects, Error: e}
}

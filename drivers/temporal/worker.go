package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/code"
)

// stopTimeout is how long a stopped worker waits for its calls to end.
const stopTimeout = 10 * time.Second

// Work serves the queue with the tools of r until ctx ends. It calls ready once the
// worker has started.
func (t *Temporal) Work(ctx context.Context, r *app.App, ready func()) error {
	c, err := t.client(ctx)
	if err != nil {
		return err
	}
	a := &activities{client: c, room: r, key: t.keys.names}
	// A cancelled workflow still needs the worker to end its calls.
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer a.watches.Wait()
	defer end()
	a.workerCtx = lasting
	fatal := make(chan error, 1)
	w := worker.New(c, t.o.Queue, worker.Options{
		WorkerStopTimeout: stopTimeout,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
	})
	w.RegisterWorkflowWithOptions(runProgram, workflow.RegisterOptions{Name: programWorkflow})
	w.RegisterWorkflowWithOptions(runChain, workflow.RegisterOptions{Name: chainWorkflow})
	w.RegisterActivityWithOptions(a.program, activity.RegisterOptions{Name: programActivity})
	w.RegisterActivityWithOptions(a.call, activity.RegisterOptions{Name: callActivity})
	w.RegisterActivityWithOptions(a.properties, activity.RegisterOptions{Name: propertiesActivity})
	w.RegisterActivityWithOptions(a.isAnswered, activity.RegisterOptions{Name: answeredActivity})
	if err := w.Start(); err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "start the worker: %w", err)
	}
	ready()
	select {
	case <-ctx.Done():
	case err = <-fatal:
		err = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the worker ended: %w", err)
	}
	a.stopping.Store(true)
	w.Stop()
	return err
}

// activities are the activities that a worker serves.
type activities struct {
	client client.Client
	room   *app.App
	key    []byte // see [callName]
	// workerCtx ends with the worker.
	workerCtx context.Context
	watches   sync.WaitGroup
	stopping  atomic.Bool
}

// maxResult is the maximum size of a result in a history; the limit of Temporal is 2 MiB.
const maxResult = 1 << 20

// call makes one call through the room.
func (a *activities) call(ctx context.Context, in message[order]) (message[*callOutcome], error) {
	at := activity.GetInfo(ctx)
	o, err := readOrder(in, at.WorkflowExecution.RunID, activityPlace+at.ActivityID)
	if err != nil {
		return message[*callOutcome]{}, temporal.NewNonRetryableApplicationError(err.Error(), refusedType, nil)
	}
	defer startHeartbeat(ctx)()
	result := a.room.Run(ctx, o.Call)
	if err := a.interruption(ctx, result); err != nil {
		return message[*callOutcome]{}, err
	}
	result = limitSize(result)
	out := &callOutcome{Result: result}
	if e := result.Error; e != nil && e.Code == toolroom.CodeApprovalRequired {
		out.Approval = e.Approval
	}
	if out.Approval != "" {
		a.watches.Go(func() { a.signalAnswer(out.Approval, at.WorkflowExecution) })
	}
	return activityMessage(ctx, activityResultPlace+at.ActivityID, out), nil
}

// limitSize returns result, or an error result if it is too large for a history.
func limitSize(result *toolroom.Result) *toolroom.Result {
	text, err := json.Marshal(result)
	if err == nil && len(text) <= maxResult {
		return result
	}
	e := toolroom.Errorf(toolroom.CodeResourceLimit, "the result of %s has %d bytes; a workflow keeps at most %d", result.Tool, len(text), maxResult)
	return &toolroom.Result{
		Call: result.Call, Tool: result.Tool, Status: toolroom.StatusError, Effects: result.Effects, Usage: result.Usage,
		Error: e.WithHint("return less: store large data as an artifact and return its handle"),
	}
}

// signalAnswer waits until a person has answered, and then signals the workflow.
func (a *activities) signalAnswer(approval string, at workflow.Execution) {
	_, _ = a.room.WaitForAnswer(a.workerCtx, approval) // the repeated call reads the answer
	if a.workerCtx.Err() != nil {
		return // the workflow polls for the answer
	}
	_ = a.client.SignalWorkflow(a.workerCtx, at.ID, at.RunID, answeredSignal, approval) // if lost, the workflow polls
}

// program runs a program through the room. The workflow makes the program's calls.
func (a *activities) program(ctx context.Context, in message[order]) (none message[*toolroom.Result], err error) {
	o, err := readOrder(in, activity.GetInfo(ctx).WorkflowExecution.RunID, programPlace)
	if err != nil {
		return none, temporal.NewNonRetryableApplicationError(err.Error(), refusedType, nil)
	}
	defer startHeartbeat(ctx)()
	r, err := newRelay(ctx, a.client, a.key)
	if err != nil {
		return none, err
	}
	result := a.room.Run(code.WithRelay(ctx, r.call), o.Call)
	if err := a.interruption(ctx, result); err != nil {
		return none, err
	}
	return activityMessage(ctx, programResultPlace, limitSize(result)), nil
}

// interruption returns an error if the worker was stopped or the activity cancelled. The error
// tells Temporal whether to start the activity again.
func (a *activities) interruption(ctx context.Context, result *toolroom.Result) error {
	switch {
	case ctx.Err() == nil || result.Status != toolroom.StatusCancelled:
		return nil
	case a.stopping.Load():
		return errors.New("the worker was stopped")
	}
	return temporal.NewCanceledError()
}

// properties returns the properties of the tool of the call with that id.
func (a *activities) properties(ctx context.Context, id string, call toolroom.Call) (message[toolProperties], error) {
	tool, limit := a.room.ToolFor(ctx, call)
	properties := toolProperties{Guarantee: toolroom.GuaranteeNever, Timeout: limit + stopTimeout}
	if tool != nil {
		properties.Guarantee = tool.RepeatGuarantee()
	}
	return activityMessage(ctx, propertiesPlace+id, properties), nil
}

// isAnswered reports whether an approval is no longer pending.
func (a *activities) isAnswered(ctx context.Context, id string) (message[bool], error) {
	asked, err := a.room.Approval(ctx, id)
	is := err != nil && toolroom.AsError(err).Code == toolroom.CodeNotFound || err == nil && asked.State != toolroom.ApprovalPending
	return activityMessage(ctx, answeredPlace+id, is), nil
}

// startHeartbeat sends heartbeats of an activity until stop is called. Their responses also tell
// the activity that it was cancelled.
func startHeartbeat(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(heartbeatTimeout / 5)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() { close(done) }
}

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
	a.lasting = lasting
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
	w.RegisterWorkflowWithOptions(program, workflow.RegisterOptions{Name: programWorkflow})
	w.RegisterWorkflowWithOptions(chain, workflow.RegisterOptions{Name: chainWorkflow})
	w.RegisterActivityWithOptions(a.program, activity.RegisterOptions{Name: programActivity})
	w.RegisterActivityWithOptions(a.call, activity.RegisterOptions{Name: callActivity})
	w.RegisterActivityWithOptions(a.facts, activity.RegisterOptions{Name: factsActivity})
	w.RegisterActivityWithOptions(a.isAnswered, activity.RegisterOptions{Name: answerActivity})
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
	key    []byte // see [nameOf]
	// lasting ends with the worker.
	lasting  context.Context
	watches  sync.WaitGroup
	stopping atomic.Bool
}

// maxResult is the maximum size of a result in a history; the limit of Temporal is 2 MiB.
const maxResult = 1 << 20

// call makes one call through the room.
func (a *activities) call(ctx context.Context, in note[toolroom.Call]) (note[*answer], error) {
	at := activity.GetInfo(ctx)
	call, err := in.read(at.WorkflowExecution.RunID, callPlace+at.ActivityID)
	if err != nil {
		return note[*answer]{}, temporal.NewNonRetryableApplicationError(err.Error(), refusal, nil)
	}
	defer heartbeat(ctx)()
	result := a.room.Run(ctx, call)
	if err := a.interrupted(ctx, result); err != nil {
		return note[*answer]{}, err
	}
	result = fit(result)
	out := &answer{Result: result}
	if e := result.Error; e != nil && e.Code == toolroom.CodeApprovalRequired {
		out.Approval = e.Approval
	}
	if out.Approval != "" {
		a.watches.Go(func() { a.signal(out.Approval, at.WorkflowExecution) })
	}
	return answerOf(ctx, donePlace+at.ActivityID, out), nil
}

// fit returns a result that fits into a history: an error instead of one that is too large.
func fit(result *toolroom.Result) *toolroom.Result {
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

// signal signals a workflow once a person has answered.
func (a *activities) signal(approval string, at workflow.Execution) {
	_, _ = a.room.WaitForAnswer(a.lasting, approval) // the repeated call reads the answer
	if a.lasting.Err() != nil {
		return // the workflow polls for the answer
	}
	_ = a.client.SignalWorkflow(a.lasting, at.ID, at.RunID, answered, approval) // if lost, the workflow polls
}

// program runs a program through the room. The workflow makes the program's calls.
func (a *activities) program(ctx context.Context, in note[toolroom.Call]) (none note[*toolroom.Result], err error) {
	call, err := in.read(activity.GetInfo(ctx).WorkflowExecution.RunID, startPlace)
	if err != nil {
		return none, temporal.NewNonRetryableApplicationError(err.Error(), refusal, nil)
	}
	defer heartbeat(ctx)()
	r, err := newRelay(ctx, a.client, a.key)
	if err != nil {
		return none, err
	}
	result := a.room.Run(code.WithRelay(ctx, r.call), call)
	if err := a.interrupted(ctx, result); err != nil {
		return none, err
	}
	return answerOf(ctx, endPlace, fit(result)), nil
}

// interrupted returns an error if the activity was ended from outside. By the error
// Temporal knows whether to start the activity again or that it was cancelled.
func (a *activities) interrupted(ctx context.Context, result *toolroom.Result) error {
	switch {
	case ctx.Err() == nil || result.Status != toolroom.StatusCancelled:
		return nil
	case a.stopping.Load():
		return errors.New("the worker was stopped")
	}
	return temporal.NewCanceledError()
}

// facts returns the facts about the tool of the call with that id.
func (a *activities) facts(ctx context.Context, id string, call toolroom.Call) (note[facts], error) {
	tool, limit := a.room.ToolOf(ctx, call)
	known := facts{Guarantee: toolroom.GuaranteeNever, Timeout: limit + stopTimeout}
	if tool != nil {
		known.Guarantee = tool.RepeatGuarantee()
	}
	return answerOf(ctx, factsPlace+id, known), nil
}

// isAnswered reports whether an approval is no longer pending.
func (a *activities) isAnswered(ctx context.Context, id string) (note[bool], error) {
	asked, err := a.room.Approval(ctx, id)
	is := err != nil && toolroom.AsError(err).Code == toolroom.CodeNotFound || err == nil && asked.State != toolroom.ApprovalPending
	return answerOf(ctx, answeredPlace+id, is), nil
}

// heartbeat sends heartbeats of an activity until stop is called. By them an activity
// also learns that it was cancelled.
func heartbeat(ctx context.Context) (stop func()) {
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

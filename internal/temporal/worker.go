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
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/room"
)

// lastOrders is how long a worker that is stopped lets its calls end.
const lastOrders = 10 * time.Second

// Work serves the queue with the tools of r until ctx ends. ready is told when
// it does.
func (t *Temporal) Work(ctx context.Context, r *room.Room, ready func()) error {
	c, err := t.client(ctx)
	if err != nil {
		return err
	}
	a := &activities{client: c, room: r}
	// A client that is cancelled still needs the worker for its last orders.
	lasting, end := context.WithCancel(context.WithoutCancel(ctx))
	defer a.watches.Wait()
	defer end()
	a.lasting = lasting
	fatal := make(chan error, 1)
	w := worker.New(c, t.o.Queue, worker.Options{
		WorkerStopTimeout: lastOrders,
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
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the worker did not start: %w", err)
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

// activities are what a worker does for workflows.
type activities struct {
	client client.Client
	room   *room.Room
	// lasting ends with the worker.
	lasting  context.Context
	watches  sync.WaitGroup
	stopping atomic.Bool
}

// largest is how many bytes of a result go into a history; Temporal takes 2 MiB.
const largest = 1 << 20

// call makes one call through the room.
func (a *activities) call(ctx context.Context, call toolroom.Call) (*answer, error) {
	defer alive(ctx)()
	result := a.room.Run(ctx, call)
	if err := a.interrupted(ctx, result); err != nil {
		return nil, err
	}
	if text, err := json.Marshal(result); err != nil || len(text) > largest {
		e := toolroom.Errorf(toolroom.CodeResourceLimit, "the result of %s has %d bytes, and a workflow keeps at most %d", result.Tool, len(text), largest)
		result = &toolroom.Result{Call: result.Call, Tool: result.Tool, Status: toolroom.StatusError, Effects: result.Effects, Error: e}
	}
	out := &answer{Result: result}
	if e := result.Error; e != nil && e.Code == toolroom.CodeApprovalRequired {
		out.Approval, _ = e.Details["approval"].(string)
	}
	if out.Approval != "" {
		at := activity.GetInfo(ctx).WorkflowExecution
		a.watches.Go(func() { a.tell(out.Approval, at) })
	}
	return out, nil
}

// tell signals a workflow once a person has answered.
func (a *activities) tell(approval string, at workflow.Execution) {
	_, _ = a.room.WaitForAnswer(a.lasting, approval) // what the answer was, the call itself finds out
	if a.lasting.Err() != nil {
		return // the workflow looks by itself
	}
	_ = a.client.SignalWorkflow(a.lasting, at.ID, at.RunID, answered, approval) // likewise
}

// program runs a program through the room; its calls become the workflow's.
func (a *activities) program(ctx context.Context, o order) (*toolroom.Result, error) {
	defer alive(ctx)()
	r, err := newRelay(ctx, a.client)
	if err != nil {
		return nil, err
	}
	result := a.room.Run(code.WithRelay(ctx, r.call), o.Call)
	return result, a.interrupted(ctx, result)
}

// interrupted is the error of an activity whose end is not its own, so that
// Temporal knows to begin it again or that it was cancelled.
func (a *activities) interrupted(ctx context.Context, result *toolroom.Result) error {
	switch {
	case ctx.Err() == nil || result.Status != toolroom.StatusCancelled:
		return nil
	case a.stopping.Load():
		return errors.New("the worker was stopped")
	}
	return temporal.NewCanceledError()
}

// facts are those of the tool of a call.
func (a *activities) facts(ctx context.Context, call toolroom.Call) (facts, error) {
	tool, limit := a.room.ToolOf(ctx, call)
	known := facts{Guarantee: toolroom.GuaranteeNever, Timeout: limit + lastOrders}
	if tool != nil {
		known.Guarantee = tool.RepeatGuarantee()
	}
	return known, nil
}

// isAnswered reports whether nobody needs to answer any more.
func (a *activities) isAnswered(ctx context.Context, id string) (bool, error) {
	asked, err := a.room.Approval(ctx, id)
	if err != nil {
		return toolroom.AsError(err).Code == toolroom.CodeNotFound, nil
	}
	return asked.State != approval.Pending, nil
}

// alive tells Temporal that an activity lives, until it is stopped; that is also
// how an activity hears that it was cancelled.
func alive(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(beat / 5)
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

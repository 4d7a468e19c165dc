package temporal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
)

// relay makes the calls of a program through its workflow. Temporal carries out an
// update once per id, so a restarted program gets the results of its first attempt.
type relay struct {
	client client.Client
	at     activity.Info
	run    string
	key    []byte // see [nameOf]

	mu    sync.Mutex
	count map[string]int  // number of calls with the same tool and arguments
	left  map[string]bool // calls of earlier attempts that have not been repeated yet
}

func newRelay(ctx context.Context, c client.Client, key []byte) (*relay, error) {
	r := &relay{client: c, at: activity.GetInfo(ctx), key: key, count: map[string]int{}, left: map[string]bool{}}
	r.run = r.at.WorkflowExecution.RunID
	if r.at.Attempt == 1 {
		return r, nil
	}
	value, err := c.QueryWorkflow(ctx, r.at.WorkflowExecution.ID, r.run, madeQuery)
	if err != nil {
		return nil, err
	}
	var n note[[]string]
	if err := value.Get(&n); err != nil {
		return nil, err
	}
	made, err := n.read(r.run, madePlace)
	if err != nil {
		return nil, err
	}
	for _, id := range made {
		r.left[id] = true
	}
	return r, nil
}

// name returns the id of a call, which is the same after the program is restarted. It
// returns an error if the call is new while calls of an earlier attempt have not been
// repeated: the program then took another path, and its earlier calls cannot be matched
// with its new ones.
func (r *relay) name(call toolroom.Call) (string, error) {
	kind := nameOf(r.key, r.run, call)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[kind]++
	id := fmt.Sprintf("%s-%d", kind, r.count[kind])
	if len(r.left) > 0 && !r.left[id] {
		return "", toolroom.Errorf(toolroom.CodeConflict, "the program was restarted on another worker and made a call of %s that it had not made before", call.Tool).
			WithHint("a program in a workflow must make the same calls each time it runs: use no random numbers and no clock")
	}
	delete(r.left, id)
	return id, nil
}

func (r *relay) call(ctx context.Context, call toolroom.Call) *toolroom.Result {
	id, err := r.name(call)
	if err != nil {
		return failedCall(call, toolroom.AsError(err))
	}
	a, err := r.update(ctx, id, callUpdate, call)
	if err == nil && a.Approval != "" {
		call.Approval = a.Approval
		resume := deadline.Pause(ctx)
		a, err = r.update(ctx, id+answerSuffix, awaitUpdate, call)
		resume()
	}
	switch {
	case ctx.Err() != nil:
		return failedCall(call, toolroom.Errorf(toolroom.CodeCancelled, "the program ended before the call"))
	case err != nil:
		return failedCall(call, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "call %s through the workflow: %s", call.Tool, text(err)))
	}
	return a.Result
}

// update sends an update and waits for its result. Temporal ends long waits, but the
// update continues, and a repeated request returns the result of the same update.
func (r *relay) update(ctx context.Context, id, name string, call toolroom.Call) (*answer, error) {
	ctx = withoutDeadline{ctx}
	args := []any{note[toolroom.Call]{r.run, askPlace + id, call}}
	for {
		handle, err := r.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			UpdateID: id, WorkflowID: r.at.WorkflowExecution.ID, RunID: r.run,
			UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageAccepted,
		})
		var n note[*answer]
		if err == nil {
			err = handle.Get(ctx, &n)
		}
		var early *client.WorkflowUpdateServiceTimeoutOrCanceledError
		if ctx.Err() == nil && errors.As(err, &early) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return n.read(r.run, tellPlace+id)
	}
}

// withoutDeadline is a context that hides its deadline. The deadline may be paused
// while a person is asked, and gRPC would not notice. The context still ends at its
// deadline.
type withoutDeadline struct{ context.Context }

// Deadline reports no deadline.
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

func failedCall(call toolroom.Call, e *toolroom.Error) *toolroom.Result {
	return &toolroom.Result{Tool: call.Tool, Status: e.Code.Info().Status, Effects: toolroom.EffectsUnknown, Error: e}
}

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
	info   activity.Info
	run    string
	key    []byte // see [callName]

	mu         sync.Mutex
	count      map[string]int  // number of calls with the same tool and arguments
	unrepeated map[string]bool // calls of earlier attempts that this attempt has not made yet
}

func newRelay(ctx context.Context, c client.Client, key []byte) (*relay, error) {
	r := &relay{client: c, info: activity.GetInfo(ctx), key: key, count: map[string]int{}, unrepeated: map[string]bool{}}
	r.run = r.info.WorkflowExecution.RunID
	if r.info.Attempt == 1 {
		return r, nil
	}
	value, err := c.QueryWorkflow(ctx, r.info.WorkflowExecution.ID, r.run, madeCallsQuery)
	if err != nil {
		return nil, err
	}
	var n message[[]string]
	if err := value.Get(&n); err != nil {
		return nil, err
	}
	made, err := n.read(r.run, madeCallsPlace)
	if err != nil {
		return nil, err
	}
	for _, id := range made {
		r.unrepeated[id] = true
	}
	return r, nil
}

// callID returns the id of a call, which is the same after the program is restarted. It
// returns an error if the call is new although calls of an earlier attempt have not been
// repeated: the program then took another path, and its earlier calls cannot be matched
// with its new ones.
func (r *relay) callID(call toolroom.Call) (string, error) {
	kind := callName(r.key, r.run, call)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[kind]++
	id := fmt.Sprintf("%s-%d", kind, r.count[kind])
	if len(r.unrepeated) > 0 && !r.unrepeated[id] {
		return "", toolroom.Errorf(toolroom.CodeConflict, "the program was restarted on another worker and made a call of %s that it had not made before", call.Tool).
			WithHint("a program in a workflow must make the same calls each time it runs: use no random numbers and no clock")
	}
	delete(r.unrepeated, id)
	return id, nil
}

// call makes one call of the program, and waits for a person if the call needs one.
func (r *relay) call(ctx context.Context, call toolroom.Call) *toolroom.Result {
	id, err := r.callID(call)
	if err != nil {
		return failedCall(call, toolroom.AsError(err))
	}
	a, err := r.update(ctx, id, callUpdate, call)
	if err == nil && a.Approval != "" {
		call.Approval = a.Approval
		resume := deadline.Pause(ctx)
		a, err = r.update(ctx, id+answerSuffix, answerUpdate, call)
		resume()
	}
	switch {
	case ctx.Err() != nil:
		return failedCall(call, toolroom.Errorf(toolroom.CodeCancelled, "the program ended before the call"))
	case err != nil:
		return failedCall(call, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "call %s through the workflow: %s", call.Tool, errorText(err)))
	}
	return a.Result
}

// update sends an update to the workflow and waits for its result. Temporal ends long waits, but
// the update continues, and a repeated request returns the result of the same update.
func (r *relay) update(ctx context.Context, id, name string, call toolroom.Call) (*callOutcome, error) {
	ctx = withoutDeadline{ctx}
	args := []any{message[toolroom.Call]{r.run, updatePlace + id, call}}
	for {
		handle, err := r.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			UpdateID: id, WorkflowID: r.info.WorkflowExecution.ID, RunID: r.run,
			UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageAccepted,
		})
		var n message[*callOutcome]
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
		return n.read(r.run, updateResultPlace+id)
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

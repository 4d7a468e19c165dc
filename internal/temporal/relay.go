package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/patience"
)

// relay hands the calls of a program to the program's workflow. An update of an
// id is carried out once, so a program that is begun anew gets the answers of
// the first time.
type relay struct {
	client client.Client
	at     activity.Info

	mu    sync.Mutex
	count map[string]int  // how often a call of the same tool and arguments came
	left  map[string]bool // calls of the time before that have not come again
}

func newRelay(ctx context.Context, c client.Client) (*relay, error) {
	r := &relay{client: c, at: activity.GetInfo(ctx), count: map[string]int{}, left: map[string]bool{}}
	if r.at.Attempt == 1 {
		return r, nil
	}
	value, err := c.QueryWorkflow(ctx, r.at.WorkflowExecution.ID, r.at.WorkflowExecution.RunID, madeQuery)
	if err != nil {
		return nil, err
	}
	var made []string
	if err := value.Get(&made); err != nil {
		return nil, err
	}
	for _, id := range made {
		r.left[id] = true
	}
	return r, nil
}

// name is the id of a call: the same one when the program is begun anew. A call
// that is not one of the time before, while some of those are left, is an error:
// the program took another way, and what it did can no longer be told apart from
// what it does.
func (r *relay) name(call toolroom.Call) (string, error) {
	sum := sha256.Sum256(append([]byte(call.Tool+"\x00"), call.Arguments...))
	kind := hex.EncodeToString(sum[:12])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[kind]++
	id := fmt.Sprintf("%s-%d", kind, r.count[kind])
	if len(r.left) > 0 && !r.left[id] {
		return "", toolroom.Errorf(toolroom.CodeConflict, "the program was begun anew on another worker and called %s, which it had not called before", call.Tool).
			WithHint("a program that a workflow carries must do the same when it runs again: no random numbers, no clock")
	}
	delete(r.left, id)
	return id, nil
}

func (r *relay) call(ctx context.Context, call toolroom.Call) *toolroom.Result {
	id, err := r.name(call)
	if err != nil {
		return failedCall(call, toolroom.AsError(err))
	}
	a, err := r.update(ctx, id, callUpdate, id, call)
	if err == nil && a.Approval != "" {
		resume := patience.Hold(ctx)
		a, err = r.update(ctx, id+"-answer", awaitUpdate, id, call, a.Approval)
		resume()
	}
	switch {
	case ctx.Err() != nil:
		return failedCall(call, toolroom.Errorf(toolroom.CodeCancelled, "the program ended before the call"))
	case err != nil:
		return failedCall(call, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the workflow did not make the call of %s: %w", call.Tool, err))
	}
	return a.Result
}

// update asks until there is an answer: an update that Temporal does not wait
// for any longer goes on, and has the same outcome for who asks again.
func (r *relay) update(ctx context.Context, id, name string, args ...any) (*answer, error) {
	ctx = undated{ctx}
	for {
		handle, err := r.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			UpdateID: id, WorkflowID: r.at.WorkflowExecution.ID, RunID: r.at.WorkflowExecution.RunID,
			UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageAccepted,
		})
		a := &answer{}
		if err == nil {
			err = handle.Get(ctx, a)
		}
		var early *client.WorkflowUpdateServiceTimeoutOrCanceledError
		if ctx.Err() == nil && errors.As(err, &early) {
			continue
		}
		return a, err
	}
}

// undated is a context whose deadline may be put off while a person is asked,
// which gRPC would not notice: it ends when its time is over, and does not say
// before when that is.
type undated struct{ context.Context }

// Deadline is not known.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

func failedCall(call toolroom.Call, e *toolroom.Error) *toolroom.Result {
	return &toolroom.Result{Tool: call.Tool, Status: e.Code.Info().Status, Effects: toolroom.EffectsUnknown, Error: e}
}

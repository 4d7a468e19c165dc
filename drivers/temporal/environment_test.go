package temporal

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolroom/toolroom"
)

// A call of a program names no environment and no caller. In one process it has those of the
// call around it.
func TestACallHasTheEnvironmentAndTheCallerOfItsOrder(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	// On a busy machine, a second without the processor is no deadlock.
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	var seen []string
	env.RegisterActivityWithOptions(func(ctx context.Context, id string, call toolroom.Call) (message[toolProperties], error) {
		seen = append(seen, call.Environment)
		return activityMessage(ctx, propertiesPlace+id, toolProperties{Guarantee: toolroom.GuaranteeNever, Timeout: stopTimeout}), nil
	}, activity.RegisterOptions{Name: propertiesActivity})
	var who toolroom.Identity
	env.RegisterActivityWithOptions(func(ctx context.Context, in message[order]) (message[*callOutcome], error) {
		o, err := readOrder(in, in.Run, activityPlace+"1")
		if err != nil {
			t.Error(err)
		}
		seen, who = append(seen, o.Call.Environment), o.Call.Identity
		return activityMessage(ctx, activityResultPlace+activity.GetInfo(ctx).ActivityID, &callOutcome{Result: &toolroom.Result{}}), nil
	}, activity.RegisterOptions{Name: callActivity})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		at := workflow.GetInfo(ctx).WorkflowExecution
		e := &workflowState{id: at.ID, run: at.RunID, order: order{Call: toolroom.Call{Environment: "test", Identity: toolroom.Identity{Subject: "ann", Token: "t1"}}}}
		return e.makeCall(ctx, "1", "1", toolroom.Call{Tool: "a:b"}).Result.Err()
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] != "test" || seen[1] != "test" {
		t.Errorf("the environments are %q", seen)
	}
	if who.Subject != "ann" || who.Token != "t1" {
		t.Errorf("the caller is %s with the token %q", who, who.Token)
	}
}

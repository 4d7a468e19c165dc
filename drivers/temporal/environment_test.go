package temporal

import (
	"context"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolroom/toolroom"
)

// A call of a program names no environment. In one process it has that of the call around it.
func TestACallHasTheEnvironmentOfItsOrder(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var seen []string
	env.RegisterActivityWithOptions(func(ctx context.Context, id string, call toolroom.Call) (note[facts], error) {
		seen = append(seen, call.Environment)
		return answerOf(ctx, factsPlace+id, facts{Guarantee: toolroom.GuaranteeNever, Timeout: stopTimeout}), nil
	}, activity.RegisterOptions{Name: factsActivity})
	env.RegisterActivityWithOptions(func(ctx context.Context, in note[toolroom.Call]) (note[*answer], error) {
		seen = append(seen, in.Body.Environment)
		return answerOf(ctx, donePlace+activity.GetInfo(ctx).ActivityID, &answer{Result: &toolroom.Result{}}), nil
	}, activity.RegisterOptions{Name: callActivity})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		at := workflow.GetInfo(ctx).WorkflowExecution
		e := &state{id: at.ID, run: at.RunID, order: order{Call: toolroom.Call{Environment: "test"}}}
		return e.call(ctx, "1", "1", toolroom.Call{Tool: "a:b"}).Result.Err()
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[0] != "test" || seen[1] != "test" {
		t.Errorf("the environments are %q", seen)
	}
}

package run_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// countingBench has a tool that counts its calls, and one that fails.
func countingBench(t *testing.T) (b *bench, made *atomic.Int64) {
	b, made = newBench(t), &atomic.Int64{}
	b.add(tool("count:up"), func(context.Context, *source.Request) (*source.Output, error) {
		made.Add(1)
		return &source.Output{}, nil
	})
	b.add(tool("count:fail"), func(context.Context, *source.Request) (*source.Output, error) {
		made.Add(1)
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "no")
	})
	return b, made
}

func budget(t *testing.T, calls int) *toolroom.Budget {
	t.Helper()
	b, err := toolroom.NewBudget(toolroom.BudgetLimits{Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantLeft(t *testing.T, b *toolroom.Budget, want int64) {
	t.Helper()
	if left, _ := b.Left(); left != want {
		t.Errorf("%d calls are left, want %d", left, want)
	}
}

func steps(tool string, n int) []toolroom.Step {
	list := make([]toolroom.Step, n)
	for i := range list {
		list[i].Tool = tool
	}
	return list
}

func TestAChainLongerThanItsBudgetIsRefusedBeforeItsFirstStep(t *testing.T) {
	t.Parallel()
	b, made := countingBench(t)
	four := budget(t, 4)
	r := b.Chain(t.Context(), toolroom.Call{Budget: four}, steps("count:up", 5))
	if r.Error == nil || r.Error.Code != toolroom.CodeBudgetExceeded || r.Error.Hint == "" || len(r.Steps) != 0 || r.Failed == nil || made.Load() != 0 {
		t.Errorf("%+v, %d calls were made", r, made.Load())
	}
	wantLeft(t, four, 4)
	if r := b.Chain(t.Context(), toolroom.Call{Budget: four}, steps("count:up", 3)); r.Error != nil || made.Load() != 3 {
		t.Errorf("%+v, %d calls were made", r, made.Load())
	}
	wantLeft(t, four, 1)
	if r := b.Chain(t.Context(), toolroom.Call{Budget: four}, steps("count:up", 2)); r.Error == nil || made.Load() != 3 {
		t.Errorf("%+v, %d calls were made", r, made.Load())
	}
}

func TestAChainCountsTheCallsThatItMakes(t *testing.T) {
	t.Parallel()
	b, made := countingBench(t)
	ten := budget(t, 10)
	// The second step is repeated twice, the third skipped, the last not reached.
	r := b.Chain(t.Context(), toolroom.Call{Budget: ten}, []toolroom.Step{
		{Tool: "count:up"}, {Tool: "count:fail", Retry: 2, ContinueOnError: true}, {Tool: "count:up", If: "false"}, {Tool: "count:fail"}, {Tool: "count:up"},
	})
	if r.Error == nil || made.Load() != 5 {
		t.Errorf("%+v, %d calls were made", r, made.Load())
	}
	wantLeft(t, ten, 5)
	// Repeats end with the budget.
	three := budget(t, 3)
	made.Store(0)
	r = b.Chain(t.Context(), toolroom.Call{Budget: three}, []toolroom.Step{{Tool: "count:fail", Retry: 1000}})
	if r.Error == nil || r.Error.Code != toolroom.CodeBudgetExceeded || made.Load() != 3 {
		t.Errorf("%+v, %d calls were made", r, made.Load())
	}
}

func TestABatchLargerThanItsBudgetIsRefusedWhole(t *testing.T) {
	t.Parallel()
	b, made := countingBench(t)
	four, six := budget(t, 4), budget(t, 6)
	var calls []toolroom.Call
	for range 5 {
		calls = append(calls, toolroom.Call{Tool: "count:up", Budget: four}, toolroom.Call{Tool: "count:up", Budget: six}, toolroom.Call{Tool: "count:up"})
	}
	for i, r := range b.Batch(t.Context(), calls, 0) {
		if refused := r.Error != nil && r.Error.Code == toolroom.CodeBudgetExceeded && r.Effects == toolroom.EffectsNone; refused != (i%3 == 0) {
			t.Errorf("call %d: %+v", i, r)
		}
	}
	if made.Load() != 10 {
		t.Errorf("%d calls were made, want 10", made.Load())
	}
	wantLeft(t, four, 4)
	wantLeft(t, six, 1)
}

func TestChainsAndBatchesInsideACallShareItsBudget(t *testing.T) {
	t.Parallel()
	b, made := countingBench(t)
	b.add(tool("outer:run"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		if r := b.Chain(ctx, toolroom.Call{Budget: budget(t, 1000)}, steps("count:up", 3)); r.Error != nil {
			return nil, r.Error
		}
		if r := b.Chain(ctx, toolroom.Call{}, steps("count:up", 4)); r.Error == nil || len(r.Steps) > 0 {
			t.Errorf("a chain of 4 with 3 left: %+v", r)
		}
		for _, r := range b.Batch(ctx, make4("count:up"), 0) {
			if r.Error == nil || r.Error.Code != toolroom.CodeBudgetExceeded {
				t.Errorf("a batch of 4 with 3 left: %+v", r)
			}
		}
		if r := b.Chain(ctx, toolroom.Call{}, steps("count:up", 3)); r.Error != nil {
			return nil, r.Error
		}
		return &source.Output{}, nil
	})
	six := budget(t, 6)
	if r := b.Run(t.Context(), toolroom.Call{Tool: "outer:run", Budget: six}); r.Error != nil || made.Load() != 6 {
		t.Errorf("%+v, %d calls were made", r, made.Load())
	}
	wantLeft(t, six, 0)
}

func make4(tool string) []toolroom.Call {
	return []toolroom.Call{{Tool: tool}, {Tool: tool}, {Tool: tool}, {Tool: tool}}
}

package toolroom

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestABudgetIsSpentExactly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		limits       BudgetLimits
		calls, depth int
		bytes        int
	}{
		{"defaults", BudgetLimits{}, DefaultMaxCalls, DefaultMaxDepth, DefaultMaxBytes},
		{"given", BudgetLimits{Calls: 3, Depth: 2, Bytes: 10}, 3, 2, 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := NewBudget(tt.limits)
			if err != nil {
				t.Fatal(err)
			}
			wantExceeded(t, "a call too deep", b.TakeCall(tt.depth+1))
			for range tt.calls {
				if err := b.TakeCall(tt.depth); err != nil {
					t.Fatal(err)
				}
			}
			wantExceeded(t, "a call too many", b.TakeCall(1))
			if err := b.TakeBytes(tt.bytes); err != nil {
				t.Fatal(err)
			}
			wantExceeded(t, "a byte too many", b.TakeBytes(1))
		})
	}
}

func TestCallsAreTakenAllOrNone(t *testing.T) {
	t.Parallel()
	b, err := NewBudget(BudgetLimits{Calls: 4})
	if err != nil {
		t.Fatal(err)
	}
	wantExceeded(t, "five of four calls", b.TakeCalls(5))
	if err := b.TakeCalls(3); err != nil {
		t.Fatal(err)
	}
	b.GiveCalls(2)
	wantExceeded(t, "four of three calls", b.TakeCalls(4))
	for range 3 {
		if err := b.TakeCall(0); err != nil {
			t.Fatal(err)
		}
	}
	wantExceeded(t, "a call too many", b.TakeCall(0))
	if calls, _ := b.Left(); calls != 0 {
		t.Errorf("%d calls are left", calls)
	}
	b.GiveCalls(1)
	if err := b.TakeCall(0); err != nil {
		t.Error(err)
	}
}

func wantExceeded(t *testing.T, what string, err error) {
	t.Helper()
	if e := AsError(err); CodeOf(err) != CodeBudgetExceeded || e.Hint == "" {
		t.Errorf("%s: %v, want budget_exceeded with a hint", what, err)
	}
}

func TestANegativeBudgetIsRefused(t *testing.T) {
	t.Parallel()
	for _, l := range []BudgetLimits{{Calls: -1}, {Depth: -1}, {Bytes: -1}} {
		if _, err := NewBudget(l); CodeOf(err) != CodeInvalidArguments {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestConcurrentCallsCannotOverspend(t *testing.T) {
	t.Parallel()
	const limit, workers, each = 50, 8, 20
	b, err := NewBudget(BudgetLimits{Calls: limit})
	if err != nil {
		t.Fatal(err)
	}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if b.TakeCall(1) == nil {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if granted.Load() != limit {
		t.Errorf("%d calls were granted, want %d", granted.Load(), limit)
	}
}

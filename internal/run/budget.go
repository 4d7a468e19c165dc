package run

import (
	"context"
	"sync/atomic"

	"github.com/toolroom/toolroom"
)

// reservation holds the calls of a chain or batch, taken from its budget before the first
// one runs.
type reservation struct {
	budget *toolroom.Budget
	parent *tally // that of the parent call, nil if there is none
	left   atomic.Int64
	err    error // why none of them may run
}

// reserve takes n calls at once from the budget that the calls made with ctx share: that of
// their parent call, or else the given one. Calls without a budget are not counted.
func (r *Runner) reserve(ctx context.Context, given *toolroom.Budget, n int) (context.Context, *reservation) {
	all := &reservation{budget: given}
	if around := scopeOf(ctx); around.runner == r {
		all.parent, all.budget = around.tally, around.budget
	}
	if all.budget == nil {
		return ctx, all
	}
	if all.err = all.budget.TakeCalls(n); all.err == nil {
		all.left.Store(int64(n))
	}
	return withScope(ctx, func(s *scope) { s.reserved = all }), all
}

// release returns to the budget the calls that were not made.
func (all *reservation) release() {
	if all.budget != nil {
		all.budget.GiveCalls(int(max(0, all.left.Swap(0))))
	}
}

// take takes one of the reserved calls. It reports false if none is left, which happens if
// calls are repeated.
func (all *reservation) take() bool { return all.left.Add(-1) >= 0 }

// chargeBudget takes one call for this call: from those reserved for its chain or batch, or else
// from the budget. The outermost call is free.
func (c *call) chargeBudget() error {
	if c.parent == nil && c.request.Budget == nil {
		return nil
	}
	var around *tally
	if c.parent != nil {
		around = c.parent.tally
	}
	all := c.scope.reserved
	switch {
	case all == nil || all.parent != around || all.budget != c.scope.budget:
		if c.parent == nil {
			return nil
		}
	case all.err != nil:
		return all.err
	case all.take():
		return c.scope.budget.CheckDepth(c.scope.depth)
	}
	return c.scope.budget.TakeCall(c.scope.depth)
}

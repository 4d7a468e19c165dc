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
	around *inside // of the call that makes them, nil if there is none
	left   atomic.Int64
	err    error // why none of them may run
}

// reserve takes n calls at once from the budget that the calls made with ctx share: that of
// the call around them, or else the given one. Calls without a budget are not counted.
func (r *Runner) reserve(ctx context.Context, given *toolroom.Budget, n int) (context.Context, *reservation) {
	all := &reservation{budget: given}
	if around := scopeOf(ctx); around.runner == r {
		all.around, all.budget = around.inside, around.budget
	}
	if all.budget == nil {
		return ctx, all
	}
	if all.err = all.budget.TakeCalls(n); all.err == nil {
		all.left.Store(int64(n))
	}
	return withScope(ctx, func(s *scope) { s.reserved = all }), all
}

// end returns the calls that were not made.
func (all *reservation) end() {
	if all.budget != nil {
		all.budget.GiveCalls(int(max(0, all.left.Swap(0))))
	}
}

// use takes one of the reserved calls. It reports false if none is left, which happens if
// calls are repeated.
func (all *reservation) use() bool { return all.left.Add(-1) >= 0 }

// takeCall takes what this call costs: one of the calls reserved for its chain or batch, or
// else one of the budget. The outermost call is free.
func (c *call) takeCall() error {
	if c.around == nil && c.request.Budget == nil {
		return nil
	}
	var around *inside
	if c.around != nil {
		around = c.around.inside
	}
	all := c.scope.reserved
	switch {
	case all == nil || all.around != around || all.budget != c.scope.budget:
		if c.around == nil {
			return nil
		}
	case all.err != nil:
		return all.err
	case all.use():
		return c.scope.budget.CheckDepth(c.scope.depth)
	}
	return c.scope.budget.TakeCall(c.scope.depth)
}

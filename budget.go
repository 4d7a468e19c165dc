package toolroom

import (
	"cmp"
	"fmt"
	"sync/atomic"
)

// Default limits of a call tree. A caller may ask for less.
const (
	DefaultMaxCalls = 100
	DefaultMaxDepth = 8
	DefaultMaxBytes = 64 << 20
)

// Budget is the rest of what a call and all calls below it may use. A call tree shares one
// Budget. Its methods are safe for concurrent use.
type Budget struct {
	maxDepth int
	calls    atomic.Int64
	bytes    atomic.Int64
}

// BudgetLimits are the limits of a new Budget. Zero means the default.
type BudgetLimits struct {
	// Calls is the number of child calls that the tree may make.
	Calls int `json:"calls,omitempty"`
	// Depth is the maximum nesting of calls; the first call has depth 0.
	Depth int `json:"depth,omitempty"`
	// Bytes is the total size of the results that child calls may return.
	Bytes int64 `json:"bytes,omitempty"`
}

// NewBudget returns a budget for a call tree. A negative limit is an [*Error] with code
// invalid_arguments.
func NewBudget(l BudgetLimits) (*Budget, error) {
	if l.Calls < 0 || l.Depth < 0 || l.Bytes < 0 {
		return nil, &Error{
			Code:    CodeInvalidArguments,
			Message: fmt.Sprintf("budget limits must not be negative: calls %d, depth %d, bytes %d", l.Calls, l.Depth, l.Bytes),
			Hint:    "omit a limit, or set it to 0, to use the default",
		}
	}
	b := &Budget{maxDepth: cmp.Or(l.Depth, DefaultMaxDepth)}
	b.calls.Store(int64(cmp.Or(l.Calls, DefaultMaxCalls)))
	b.bytes.Store(cmp.Or(l.Bytes, DefaultMaxBytes))
	return b, nil
}

// TakeCall takes one child call at the given depth from the budget. It returns an [*Error]
// with code budget_exceeded if none is left or the depth is too large.
func (b *Budget) TakeCall(depth int) error {
	if err := b.CheckDepth(depth); err != nil {
		return err
	}
	if !b.take(1) {
		return budgetExceeded("the tool call budget of this call is used up")
	}
	return nil
}

// CheckDepth returns an [*Error] with code budget_exceeded if calls may not nest to this
// depth.
func (b *Budget) CheckDepth(depth int) error {
	if depth > b.maxDepth {
		return budgetExceeded(fmt.Sprintf("calls are nested deeper than %d", b.maxDepth))
	}
	return nil
}

// TakeCalls takes n calls at once, for a chain or batch of n calls. If fewer are left, it
// takes none and returns an [*Error] with code budget_exceeded.
func (b *Budget) TakeCalls(n int) error {
	if !b.take(int64(n)) {
		left, _ := b.Left()
		return budgetExceeded(fmt.Sprintf("%d tool calls requested, but only %d left in the budget", n, left))
	}
	return nil
}

// GiveCalls puts back calls that [Budget.TakeCalls] took and that were not made.
func (b *Budget) GiveCalls(n int) { b.calls.Add(int64(n)) }

func (b *Budget) take(n int64) bool {
	for {
		left := b.calls.Load()
		if left < n {
			return false
		}
		if b.calls.CompareAndSwap(left, left-n) {
			return true
		}
	}
}

// Allow raises the number of calls left to at least n. Tools whose arguments set the number
// of calls use it if their call is the first of its tree.
func (b *Budget) Allow(n int) {
	for {
		left := b.calls.Load()
		if left >= int64(n) || b.calls.CompareAndSwap(left, int64(n)) {
			return
		}
	}
}

// TakeBytes takes n bytes of results, or returns an [*Error] with code budget_exceeded.
func (b *Budget) TakeBytes(n int) error {
	if b.bytes.Add(-int64(n)) < 0 {
		return budgetExceeded("the results of child calls exceed the byte budget of this call")
	}
	return nil
}

// Left returns the calls and the bytes of results that may still be used.
func (b *Budget) Left() (calls, bytes int64) { return max(0, b.calls.Load()), max(0, b.bytes.Load()) }

func budgetExceeded(message string) *Error {
	return &Error{Code: CodeBudgetExceeded, Message: message, Hint: "do less in one call, or ask for a larger budget"}
}

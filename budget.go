package toolroom

import (
	"fmt"
	"sync/atomic"
)

// Limits of a call tree, unless the caller asks for less.
const (
	DefaultMaxCalls = 100
	DefaultMaxDepth = 8
	DefaultMaxBytes = 64 << 20
)

// Budget is what a call and everything below it may still spend. One Budget is
// shared by a whole call tree; its methods are safe for concurrent use.
type Budget struct {
	maxDepth int
	calls    atomic.Int64
	bytes    atomic.Int64
}

// BudgetLimits are the limits of a new Budget; zero means the default.
type BudgetLimits struct {
	// Calls is how many child calls the tree may make.
	Calls int `json:"calls,omitempty"`
	// Depth is how deep calls may nest; the first call has depth 0.
	Depth int `json:"depth,omitempty"`
	// Bytes is how many bytes of results children may return in all.
	Bytes int64 `json:"bytes,omitempty"`
}

// NewBudget starts the budget of a call tree. A negative limit is an [*Error]
// with code invalid_arguments.
func NewBudget(l BudgetLimits) (*Budget, error) {
	if l.Calls < 0 || l.Depth < 0 || l.Bytes < 0 {
		return nil, &Error{
			Code:    CodeInvalidArguments,
			Message: fmt.Sprintf("a budget cannot be negative: calls %d, depth %d, bytes %d", l.Calls, l.Depth, l.Bytes),
			Hint:    "leave a limit out, or give 0, for its default",
		}
	}
	b := &Budget{maxDepth: orDefault(l.Depth, DefaultMaxDepth)}
	b.calls.Store(int64(orDefault(l.Calls, DefaultMaxCalls)))
	b.bytes.Store(orDefault(l.Bytes, DefaultMaxBytes))
	return b, nil
}

// TakeCall spends one child call at the given depth, or reports an [*Error]
// with code budget_exceeded.
func (b *Budget) TakeCall(depth int) error {
	if depth > b.maxDepth {
		return budgetExceeded(fmt.Sprintf("calls are nested deeper than %d", b.maxDepth))
	}
	if b.calls.Add(-1) < 0 {
		return budgetExceeded("this call has made all the tool calls it may make")
	}
	return nil
}

// Allow raises the number of calls that are left to at least n. It is for a tool
// whose arguments say how many calls it may make, when its call is the first of
// its tree.
func (b *Budget) Allow(n int) {
	for {
		left := b.calls.Load()
		if left >= int64(n) || b.calls.CompareAndSwap(left, int64(n)) {
			return
		}
	}
}

// TakeBytes spends n bytes of results, or reports budget_exceeded.
func (b *Budget) TakeBytes(n int) error {
	if b.bytes.Add(-int64(n)) < 0 {
		return budgetExceeded("the results of the calls made from this call are larger than it may receive")
	}
	return nil
}

// Left is what may still be spent: calls, and bytes of results.
func (b *Budget) Left() (calls, bytes int64) { return max(0, b.calls.Load()), max(0, b.bytes.Load()) }

func budgetExceeded(message string) *Error {
	return &Error{Code: CodeBudgetExceeded, Message: message, Hint: "do less in one call, or ask for a larger budget"}
}

func orDefault[T int | int64](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

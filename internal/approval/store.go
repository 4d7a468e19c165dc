package approval

import (
	"context"
	"time"
)

// Store holds approvals and grants. Its methods are safe for concurrent use,
// also by several processes on one store. Every approval that they return is
// settled (see [Approval.Settle]).
type Store interface {
	// CreateApproval stores a pending approval, durably, and returns it, unless
	// one with the same digest is open at a.Created (see [Approval.Open]): then
	// it stores nothing and returns that one.
	CreateApproval(ctx context.Context, a *Approval) (*Approval, error)
	// Approval is one by id, or an error with code not_found.
	Approval(ctx context.Context, id string, now time.Time) (*Approval, error)
	// Approvals lists those in a state, oldest first; empty means all.
	Approvals(ctx context.Context, state State, now time.Time) ([]*Approval, error)
	// AnswerApproval takes an answer to a pending approval as [Approval.Decide]
	// says. With the answer that approves it, the grant that g makes of it is
	// stored in the same transaction; g gives nil where there is none to store.
	AnswerApproval(ctx context.Context, id string, answer Answer, now time.Time, g func(*Approval) *Grant) (*Approval, error)
	// UseApproval takes an answer for a call, once, as [Approval.Use] says.
	UseApproval(ctx context.Context, id string, now time.Time) error
	// CancelApproval closes a pending one as [Approval.Cancel] says.
	CancelApproval(ctx context.Context, id string, now time.Time) error
	// NotifiedApproval records that a webhook has been told of one.
	NotifiedApproval(ctx context.Context, id, hook string) error
	// SweepApprovals removes those that ended before a time, and grants whose
	// time is over at it; n is how many approvals.
	SweepApprovals(ctx context.Context, before time.Time) (n int64, err error)

	// Grants lists the standing permissions that hold at now, oldest first. A
	// tool or a caller (see [Caller]) that is not empty restricts them.
	Grants(ctx context.Context, tool, caller string, now time.Time) ([]*Grant, error)
	// RemoveGrant takes one back, or is an error with code not_found.
	RemoveGrant(ctx context.Context, id string) error
}

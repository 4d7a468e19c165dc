package approval

import (
	"context"
	"time"

	"github.com/toolroom/toolroom"
)

// MaxPending is how many questions of one subject people may be asked at once, so that no
// caller buries those of others.
const MaxPending = 100

// TooMany returns the error for a question beyond [MaxPending].
func TooMany() error {
	return toolroom.Errorf(toolroom.CodeRateLimited, "%d calls of this caller wait for approval already, the most at once", MaxPending).
		WithHint("wait until a person has answered some, or until they expire")
}

// Store stores approvals and grants. Its methods are safe for concurrent use,
// also by several processes on one store. They apply [ExpireIfDue] to the
// approvals that they return.
type Store interface {
	// CreateApproval durably stores a pending approval and returns it. If an
	// approval with the same digest is open at a.Created (see [IsOpen]), it
	// stores nothing and returns that one. If its subject has [MaxPending] pending ones,
	// the error is that of [TooMany].
	CreateApproval(ctx context.Context, a *toolroom.Approval) (*toolroom.Approval, error)
	// Approval returns one by id, or an error with code not_found.
	Approval(ctx context.Context, id string, now time.Time) (*toolroom.Approval, error)
	// Approvals returns those in a state, oldest first; an empty state means all.
	Approvals(ctx context.Context, state toolroom.ApprovalState, now time.Time) ([]*toolroom.Approval, error)
	// AnswerApproval records an answer to a pending approval, see
	// [Decide]. If the answer approves it, AnswerApproval stores the grant
	// that g returns in the same transaction, unless g returns nil.
	AnswerApproval(ctx context.Context, id string, answer toolroom.Answer, now time.Time, g func(*toolroom.Approval) *toolroom.Grant) (*toolroom.Approval, error)
	// UseApproval uses an answer for a call, once, see [Use].
	UseApproval(ctx context.Context, id string, now time.Time) error
	// CancelApproval cancels a pending approval, see [Cancel].
	CancelApproval(ctx context.Context, id string, now time.Time) error
	// MarkApprovalNotified records that a webhook has received an approval.
	MarkApprovalNotified(ctx context.Context, id, hook string) error
	// ExpireApprovals marks pending approvals, and approved ones that no call has used,
	// whose time is over at now as expired, and removes expired grants, so that they stay
	// so if the clock is set back.
	ExpireApprovals(ctx context.Context, now time.Time) error
	// SweepApprovals removes approvals that ended before a time and grants that
	// have expired by then. It returns the number of removed approvals.
	SweepApprovals(ctx context.Context, before time.Time) (n int64, err error)

	// Grants returns the grants that hold at now, oldest first. A non-empty tool or
	// caller (see [Caller]) restricts them.
	Grants(ctx context.Context, tool, caller string, now time.Time) ([]*toolroom.Grant, error)
	// RemoveGrant removes a grant, or returns an error with code not_found.
	RemoveGrant(ctx context.Context, id string) error
}

// Package approval keeps the questions that Toolroom puts to people about exact
// calls. The runner asks through [Desk]; people answer through any surface.
package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
)

// State is where an approval stands.
type State string

// The states. Pending is the only one that changes: an answer makes it approved
// or declined, time makes it expired.
const (
	Pending  State = "pending"
	Approved State = "approved"
	Declined State = "declined"
	Expired  State = "expired"
)

// Approval is a question to a person about one exact call.
type Approval struct {
	ID   string `json:"id"`
	Call string `json:"call"`
	// Digest binds the answer to the call: the SHA-256, in hex, over tool id,
	// version, canonical arguments and identity.
	Digest    string            `json:"digest"`
	Tool      string            `json:"tool"`
	Arguments json.RawMessage   `json:"arguments"`
	Identity  toolroom.Identity `json:"identity,omitzero"`
	// Reason is the policy rule that asks.
	Reason  string    `json:"reason"`
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	// Expires ends the wait for an answer. Approving moves it by as much time
	// again: within that the approved call has to start.
	Expires time.Time `json:"expires"`

	// Answered, By and Comment are of the person's answer.
	Answered time.Time `json:"answered,omitzero"`
	By       string    `json:"by,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	// Used is set once the approved call has started: an approval serves once.
	Used time.Time `json:"used,omitzero"`
}

// Answer is what a person says.
type Answer struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	Comment string `json:"comment,omitempty"`
}

// Settle makes a pending approval whose time is over at now an expired one.
// Stores apply it to everything that they return.
func (a *Approval) Settle(now time.Time) {
	if a.State == Pending && !now.Before(a.Expires) {
		a.State = Expired
	}
}

// Open reports whether a can still let its call run: it is pending, or approved
// and not yet used, and its time is not over at now.
func (a *Approval) Open(now time.Time) bool {
	waits := a.State == Pending || a.State == Approved && a.Used.IsZero()
	return waits && now.Before(a.Expires)
}

// Decide records a person's answer. An answered approval is a conflict, an
// expired one approval_expired.
func (a *Approval) Decide(answer Answer, now time.Time) error {
	a.Settle(now)
	switch a.State {
	case Pending:
	case Expired:
		return a.expired()
	default:
		return a.fail(toolroom.CodeConflict, fmt.Sprintf("was %s by %s already", a.State, a.by()), "a decision stands; repeat the call to be asked again")
	}
	a.Answered, a.By, a.Comment = now, answer.By, answer.Comment
	if !answer.Approve {
		a.State = Declined
		return nil
	}
	a.State = Approved
	a.Expires = now.Add(a.Expires.Sub(a.Created))
	return nil
}

// Use takes an approved approval for a run. A used one is a conflict; one that
// is not approved, or was approved too long ago, is the error that the call
// fails with.
func (a *Approval) Use(now time.Time) error {
	a.Settle(now)
	switch {
	case !a.Used.IsZero():
		return a.fail(toolroom.CodeConflict, "has served a call already", "an approval serves once; repeat the call to be asked again")
	case a.State == Pending:
		return a.fail(toolroom.CodeApprovalRequired, "is not answered yet", "answer it with: toolroom approve "+a.ID)
	case a.State == Declined:
		return a.declined()
	case a.State == Expired || !now.Before(a.Expires):
		return a.expired()
	}
	a.Used = now
	return nil
}

// Err is nil for an approved approval, and for one that is declined or expired
// the error that its call fails with.
func (a *Approval) Err() error {
	switch a.State {
	case Declined:
		return a.declined()
	case Expired:
		return a.expired()
	default:
		return nil
	}
}

func (a *Approval) declined() error {
	said := "was declined by " + a.by()
	if a.Comment != "" {
		said += ": " + a.Comment
	}
	return a.fail(toolroom.CodeApprovalDeclined, said, "do not repeat the call as it is; ask the person what to do instead")
}

func (a *Approval) expired() error {
	return a.fail(toolroom.CodeApprovalExpired, "expired at "+a.Expires.UTC().Format(time.RFC3339), "repeat the call to ask again")
}

func (a *Approval) by() string {
	if a.By == "" {
		return "the local operator"
	}
	return a.By
}

func (a *Approval) fail(code toolroom.Code, what, hint string) error {
	return &toolroom.Error{
		Code:    code,
		Phase:   toolroom.PhaseApproval,
		Tool:    a.Tool,
		Message: fmt.Sprintf("approval %s of %s %s", a.ID, a.Tool, what),
		Hint:    hint,
		Details: map[string]any{"approval": a.ID, "state": a.State, "reason": a.Reason},
	}
}

// Store holds approvals. Its methods are safe for concurrent use, also by
// several processes on one store. Everything that they return is settled (see
// [Approval.Settle]).
type Store interface {
	// CreateApproval stores a pending approval, durably, and returns it, unless
	// one with the same digest is open at a.Created (see [Approval.Open]): then
	// it stores nothing and returns that one.
	CreateApproval(ctx context.Context, a *Approval) (*Approval, error)
	// Approval is one by id, or an error with code not_found.
	Approval(ctx context.Context, id string, now time.Time) (*Approval, error)
	// Approvals lists those in a state, oldest first; empty means all.
	Approvals(ctx context.Context, state State, now time.Time) ([]*Approval, error)
	// AnswerApproval decides a pending approval, once, as [Approval.Decide] says.
	AnswerApproval(ctx context.Context, id string, answer Answer, now time.Time) (*Approval, error)
	// UseApproval takes an approved one for a run, once, as [Approval.Use] says.
	UseApproval(ctx context.Context, id string, now time.Time) error
}

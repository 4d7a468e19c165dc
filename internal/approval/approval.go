// Package approval keeps the questions that Toolroom puts to people about exact
// calls. The runner asks through [Desk]; people answer through any surface.
package approval

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
)

// State is where an approval stands.
type State string

// The states. Pending is the only one that changes.
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

// Store holds approvals. Its methods are safe for concurrent use, also by
// several processes on one store.
type Store interface {
	// CreateApproval stores a pending approval, durably.
	CreateApproval(ctx context.Context, a *Approval) error
	// Approval is one by id, or an error with code not_found. A pending one
	// whose time is over at now is returned as expired.
	Approval(ctx context.Context, id string, now time.Time) (*Approval, error)
	// Approvals lists those in a state, oldest first; empty means all.
	Approvals(ctx context.Context, state State, now time.Time) ([]*Approval, error)
	// FindApproval is the newest approval for a digest that is pending, or
	// approved and not yet used, at now; not_found when there is none.
	FindApproval(ctx context.Context, digest string, now time.Time) (*Approval, error)
	// AnswerApproval decides a pending approval, once. An answered one is a
	// conflict, an expired one approval_expired.
	AnswerApproval(ctx context.Context, id string, a Answer, now time.Time) (*Approval, error)
	// UseApproval takes an approved one for a run, once; a second use is a
	// conflict.
	UseApproval(ctx context.Context, id string, now time.Time) error
}

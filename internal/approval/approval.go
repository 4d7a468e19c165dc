// Package approval manages approvals: questions to people about exact calls, and
// their answers. The runner asks through [Service]; people answer on any surface.
package approval

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
)

// State is the state of an approval.
type State string

// The states. Only a pending approval changes state: answers approve or decline
// it, it expires with time, and it is cancelled when the caller gives up the call.
const (
	Pending   State = "pending"
	Approved  State = "approved"
	Declined  State = "declined"
	Expired   State = "expired"
	Cancelled State = "cancelled"
)

// Approval is a question to a person about one exact call.
type Approval struct {
	ID   string `json:"id"`
	Call string `json:"call"`
	// Digest binds the answer to the call: the SHA-256, in hex, over tool id,
	// version, canonical arguments, what else goes to the tool, and identity.
	Digest    string            `json:"digest"`
	Tool      string            `json:"tool"`
	Arguments json.RawMessage   `json:"arguments"`
	Identity  toolroom.Identity `json:"identity,omitzero"`
	Session   string            `json:"session,omitempty"`
	// Reason is the policy rule that requires the approval.
	Reason string `json:"reason"`
	// Effects describes the predicted effects in plain words, and Diff the change
	// to a file as a unified diff. Both are empty if they are not known.
	Effects []string `json:"effects,omitempty"`
	Diff    string   `json:"diff,omitempty"`
	// Terms are the terms at the time of the question.
	Terms
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	// Expires is when the wait for an answer ends. Approving moves it: the
	// approved call must start within the same span after the answer.
	Expires time.Time `json:"expires"`

	// Votes are the answers so far. Answered and Comment belong to the last one.
	// By names all people who approved, or the one who declined.
	Votes    []Vote    `json:"votes,omitempty"`
	Answered time.Time `json:"answered,omitzero"`
	By       string    `json:"by,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	// Scope is what was approved.
	Scope Scope `json:"scope,omitempty"`
	// Notified names the webhooks that have received the question.
	Notified []string `json:"notified,omitempty"`
	// Used is set once the approved call has started, or the decline has been
	// reported to its call: an answer serves one call.
	Used time.Time `json:"used,omitzero"`
}

// Settle marks a pending approval as expired if its time is over at now. Stores
// apply it to every approval that they return.
func (a *Approval) Settle(now time.Time) {
	if a.State == Pending && !now.Before(a.Expires) {
		a.State = Expired
	}
}

// Open reports whether a repeat of the call uses a: its time is not over at now,
// and it is pending, or its answer (approved once, or declined) has not yet
// reached a call. A wider approval is a [Grant].
func (a *Approval) Open(now time.Time) bool {
	unused := a.Used.IsZero() && (a.State == Approved && a.Scope == Once || a.State == Declined)
	return (a.State == Pending || unused) && now.Before(a.Expires)
}

// Use uses the answer for a call. It returns a conflict if the approval has been
// used before, and the error that the call fails with if the approval is not
// approved or was approved too long ago. A decline is reported each time it is
// used by its id, but only once to a repeat of the call.
func (a *Approval) Use(now time.Time) error {
	a.Settle(now)
	switch {
	case a.State == Declined:
		if a.Used.IsZero() {
			a.Used = now
		}
		return a.declined()
	case !a.Used.IsZero():
		return a.fail(toolroom.CodeConflict, "has already been used", "an approval can be used once; repeat the call to ask again")
	case a.State == Pending:
		return a.fail(toolroom.CodeApprovalRequired, "has not been answered yet", "answer it with: toolroom approve "+a.ID)
	case a.State == Cancelled:
		return a.cancelled()
	case a.State == Expired || !now.Before(a.Expires):
		return a.expired()
	}
	a.Used = now
	return nil
}

// Cancel cancels a pending approval because its call was given up. It does not
// change an approval in any other state.
func (a *Approval) Cancel(now time.Time) {
	a.Settle(now)
	if a.State == Pending {
		a.State, a.Answered = Cancelled, now
	}
}

// Err returns the error that the call of a declined, expired or cancelled
// approval fails with, and nil if the approval is approved or pending.
func (a *Approval) Err() error {
	switch a.State {
	case Declined:
		return a.declined()
	case Expired:
		return a.expired()
	case Cancelled:
		return a.cancelled()
	default:
		return nil
	}
}

func (a *Approval) declined() error {
	said := "was declined by " + a.by()
	if a.Comment != "" {
		said += ": " + a.Comment
	}
	return a.fail(toolroom.CodeApprovalDeclined, said, "do not repeat the call unchanged; ask the person what to do instead")
}

func (a *Approval) expired() error {
	return a.fail(toolroom.CodeApprovalExpired, "expired at "+a.Expires.UTC().Format(time.RFC3339), "repeat the call to ask again")
}

func (a *Approval) cancelled() error {
	return a.fail(toolroom.CodeCancelled, "was cancelled together with its call", "repeat the call to ask again")
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
		Details: map[string]any{"state": a.State, "reason": a.Reason},
		Facts:   toolroom.Facts{Approval: a.ID},
	}
}

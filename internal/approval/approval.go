// Package approval keeps the questions that Toolroom puts to people about exact
// calls. The runner asks through [Desk]; people answer through any surface.
package approval

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
)

// State is where an approval stands.
type State string

// The states. Pending is the only one that changes: answers make it approved or
// declined, time makes it expired, and a caller that gives up its call makes it
// cancelled.
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
	// Reason is the policy rule that asks.
	Reason string `json:"reason"`
	// Effects says in plain words what the call would do, and Diff what it would
	// change in a file, as a unified diff; both where that is known.
	Effects []string `json:"effects,omitempty"`
	Diff    string   `json:"diff,omitempty"`
	// Terms are those in force when the question was put.
	Terms
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	// Expires ends the wait for an answer. Approving moves it by as much time
	// again: within that the approved call has to start.
	Expires time.Time `json:"expires"`

	// Votes are the answers so far. Answered, By and Comment are of the last one;
	// of several people By names all.
	Votes    []Vote    `json:"votes,omitempty"`
	Answered time.Time `json:"answered,omitzero"`
	By       string    `json:"by,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	// Scope is what was approved.
	Scope Scope `json:"scope,omitempty"`
	// Notified are the webhooks that have been told of the question.
	Notified []string `json:"notified,omitempty"`
	// Used is set once the approved call has started, or was told of the decline:
	// an answer serves once.
	Used time.Time `json:"used,omitzero"`
}

// Settle makes a pending approval whose time is over at now an expired one.
// Stores apply it to everything that they return.
func (a *Approval) Settle(now time.Time) {
	if a.State == Pending && !now.Before(a.Expires) {
		a.State = Expired
	}
}

// Open reports whether a repeat of the call is to use a: it is pending, or
// approved once or declined with no call told so far, and its time is not over
// at now. What was approved for more is a [Grant].
func (a *Approval) Open(now time.Time) bool {
	untold := a.Used.IsZero() && (a.State == Approved && a.Scope == Once || a.State == Declined)
	return (a.State == Pending || untold) && now.Before(a.Expires)
}

// Use takes the answer for a call. An approved one that is used is a conflict;
// one that is not approved, or was approved too long ago, is the error that the
// call fails with. A decline serves as often as it is asked for by its id, and
// once for a repeat of the call.
func (a *Approval) Use(now time.Time) error {
	a.Settle(now)
	switch {
	case a.State == Declined:
		if a.Used.IsZero() {
			a.Used = now
		}
		return a.declined()
	case !a.Used.IsZero():
		return a.fail(toolroom.CodeConflict, "has served a call already", "an approval serves once; repeat the call to be asked again")
	case a.State == Pending:
		return a.fail(toolroom.CodeApprovalRequired, "is not answered yet", "answer it with: toolroom approve "+a.ID)
	case a.State == Cancelled:
		return a.cancelled()
	case a.State == Expired || !now.Before(a.Expires):
		return a.expired()
	}
	a.Used = now
	return nil
}

// Cancel closes a pending approval whose call was given up. One that is not
// pending stays what it is.
func (a *Approval) Cancel(now time.Time) {
	a.Settle(now)
	if a.State == Pending {
		a.State, a.Answered = Cancelled, now
	}
}

// Err is nil for an approval that is approved or pending, and for any other the
// error that its call fails with.
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
	return a.fail(toolroom.CodeApprovalDeclined, said, "do not repeat the call as it is; ask the person what to do instead")
}

func (a *Approval) expired() error {
	return a.fail(toolroom.CodeApprovalExpired, "expired at "+a.Expires.UTC().Format(time.RFC3339), "repeat the call to ask again")
}

func (a *Approval) cancelled() error {
	return a.fail(toolroom.CodeCancelled, "was cancelled with the call that asked", "repeat the call to ask again")
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

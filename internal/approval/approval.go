// Package approval manages approvals: questions to people about exact calls, and
// their answers. The runner asks through [Service]; people answer on any surface.
//
// A [Notifier] tells people of approvals over HTTP: it sends each question to the
// configured webhooks, with a link to answer it.
package approval

import (
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
)

// ExpireIfDue marks a pending approval as expired if its time is over at now. Stores
// apply it to every approval that they return.
func ExpireIfDue(a *toolroom.Approval, now time.Time) {
	if a.State == toolroom.ApprovalPending && !now.Before(a.Expires) {
		a.State = toolroom.ApprovalExpired
	}
}

// IsOpen reports whether a repeat of the call uses a: its time is not over at now,
// and it is pending, or its answer (approved once, or declined) has not yet
// reached a call. A wider approval is a [toolroom.Grant].
func IsOpen(a *toolroom.Approval, now time.Time) bool {
	unused := a.Used.IsZero() && (a.State == toolroom.ApprovalApproved && a.Scope == toolroom.ScopeOnce || a.State == toolroom.ApprovalDeclined)
	return (a.State == toolroom.ApprovalPending || unused) && now.Before(a.Expires)
}

// Use uses the answer for a call. It returns a conflict if the approval has been
// used before, and the error that the call fails with if the approval is not
// approved or was approved too long ago. A decline is reported each time it is
// used by its id, but only once to a repeat of the call.
func Use(a *toolroom.Approval, now time.Time) error {
	ExpireIfDue(a, now)
	switch {
	case a.State == toolroom.ApprovalDeclined:
		if a.Used.IsZero() {
			a.Used = now
		}
		return errDeclined(a)
	case !a.Used.IsZero():
		return newError(a, toolroom.CodeConflict, "has already been used", "an approval can be used once; repeat the call to ask again")
	case a.State == toolroom.ApprovalPending:
		return newError(a, toolroom.CodeApprovalRequired, "has not been answered yet", "answer it with: toolroom approve "+a.ID)
	case a.State == toolroom.ApprovalCancelled:
		return errCancelled(a)
	case a.State == toolroom.ApprovalExpired || !now.Before(a.Expires):
		return errExpired(a)
	}
	a.Used = now
	return nil
}

// Cancel cancels a pending approval because its call was given up. It does not
// change an approval in any other state.
func Cancel(a *toolroom.Approval, now time.Time) {
	ExpireIfDue(a, now)
	if a.State == toolroom.ApprovalPending {
		a.State, a.Answered = toolroom.ApprovalCancelled, now
	}
}

// Err returns the error that the call of a declined, expired or cancelled
// approval fails with, and nil if the approval is approved or pending.
func Err(a *toolroom.Approval) error {
	switch a.State {
	case toolroom.ApprovalDeclined:
		return errDeclined(a)
	case toolroom.ApprovalExpired:
		return errExpired(a)
	case toolroom.ApprovalCancelled:
		return errCancelled(a)
	default:
		return nil
	}
}

func errDeclined(a *toolroom.Approval) error {
	said := "was declined by " + deciderOf(a)
	if a.Comment != "" {
		said += ": " + a.Comment
	}
	return newError(a, toolroom.CodeApprovalDeclined, said, "do not repeat the call unchanged; ask the person what to do instead")
}

func errExpired(a *toolroom.Approval) error {
	return newError(a, toolroom.CodeApprovalExpired, "expired at "+a.Expires.UTC().Format(time.RFC3339), "repeat the call to ask again")
}

func errCancelled(a *toolroom.Approval) error {
	return newError(a, toolroom.CodeCancelled, "was cancelled together with its call", "repeat the call to ask again")
}

// deciderOf returns the name of the person who answered last.
func deciderOf(a *toolroom.Approval) string {
	if a.By == "" {
		return "the local operator"
	}
	return a.By
}

func newError(a *toolroom.Approval, code toolroom.Code, what, hint string) error {
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

package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Scope says which calls an approval covers.
type Scope string

// The scopes, narrowest first. An approval wider than Once becomes a [Grant].
const (
	// Once lets this call run once.
	Once Scope = "once"
	// ThisCall lets the very same call (tool, version, arguments, caller) run
	// whenever it is made.
	ThisCall Scope = "call"
	// ThisSession lets the caller use the tool until its session ends.
	ThisSession Scope = "session"
	// Always lets the caller use the tool from now on.
	Always Scope = "always"
)

// Scopes returns all scopes, narrowest first.
func Scopes() []Scope { return []Scope{Once, ThisCall, ThisSession, Always} }

// narrower returns the narrower of two scopes. An empty a means no scope yet.
func narrower(a, b Scope) Scope {
	if a == "" || slices.Index(Scopes(), b) < slices.Index(Scopes(), a) {
		return b
	}
	return a
}

// Answer is a person's answer.
type Answer struct {
	Approve bool
	// By is the person's name, for display only.
	By      string
	Comment string
	// Scope is the scope of an approval; empty means [Once].
	Scope Scope
	// Who is the identity that answers, as the surface authenticated it; the zero
	// Identity is the local operator.
	Who toolroom.Identity
	// Elicited says that Who is the caller itself: its client was asked about
	// exactly this call and reports that its user has answered.
	Elicited bool
	// Hook names the webhook through whose signed link the answer came; then Who
	// is empty.
	Hook string
}

// voter identifies the person who answers, so that one person does not count as
// two. All who answer on the machine itself are the one local operator.
func (a Answer) voter() string {
	if a.Hook != "" {
		return hookPrefix + a.Hook
	}
	return a.Who.Key()
}

// Vote is the record of one person's answer.
type Vote struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	// Voter is the identity, webhook or operator that answered under the name By.
	Voter   string    `json:"voter"`
	Comment string    `json:"comment,omitempty"`
	Scope   Scope     `json:"scope,omitempty"`
	Time    time.Time `json:"time"`
}

// Decide records a person's answer. A single no declines, even if the same
// person said yes before. The approval is approved once as many different people
// as the terms require have said yes; the narrowest of their scopes counts.
// Decide returns a conflict if the approval has already ended or the person has
// already approved, approval_expired if it has expired, and denied if this person
// may not answer.
func (a *Approval) Decide(answer Answer, now time.Time) error {
	a.Settle(now)
	switch a.State {
	case Pending:
	case Expired:
		return a.expired()
	case Cancelled:
		return a.fail(toolroom.CodeConflict, "was cancelled together with its call", "no answer is needed any more")
	default:
		return a.fail(toolroom.CodeConflict, fmt.Sprintf("was already %s by %s", a.State, a.by()), "a decision is final; repeat the call to ask again")
	}
	if answer.Scope == "" {
		answer.Scope = Once
	}
	if err := a.permits(answer); err != nil {
		return err
	}
	for _, v := range a.Votes {
		if answer.Approve && v.Voter == answer.voter() {
			return a.fail(toolroom.CodeConflict, fmt.Sprintf("already has an answer from %s, and needs %d people", v.Voter, a.People), "another person must approve as well")
		}
	}
	vote := Vote{Approve: answer.Approve, By: answer.By, Voter: answer.voter(), Comment: answer.Comment, Time: now}
	if answer.Approve {
		vote.Scope = answer.Scope
	}
	a.Votes = append(slices.Clip(a.Votes), vote)
	a.Comment = answer.Comment
	switch {
	case !answer.Approve:
		a.State, a.By, a.Answered, a.Scope = Declined, answer.By, now, ""
		return nil
	default:
		a.Scope = narrower(a.Scope, answer.Scope)
	}
	if len(a.Votes) < a.People {
		return nil
	}
	a.State, a.Answered, a.By = Approved, now, a.voters()
	a.Expires = now.Add(a.Expires.Sub(a.Created))
	return nil
}

// Missing returns how many people must still approve.
func (a *Approval) Missing() int {
	if a.State != Pending {
		return 0
	}
	return max(a.People, 1) - len(a.Votes)
}

func (a *Approval) voters() string {
	names := make([]string, len(a.Votes))
	for i, v := range a.Votes {
		names[i] = v.By
	}
	return strings.Join(names, " and ")
}

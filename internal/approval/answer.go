package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Scope is how far a person's yes goes.
type Scope string

// The scopes, from the narrowest up. Whatever is wider than once becomes a
// [Grant].
const (
	// Once lets this call run, one time.
	Once Scope = "once"
	// ThisCall lets the very same call (tool, version, arguments, caller) run
	// whenever it is made.
	ThisCall Scope = "call"
	// ThisSession lets the caller use the tool until its session ends.
	ThisSession Scope = "session"
	// Always lets the caller use the tool from now on.
	Always Scope = "always"
)

// Scopes are all scopes, from the narrowest up.
func Scopes() []Scope { return []Scope{Once, ThisCall, ThisSession, Always} }

// narrower is the one of two scopes that permits less; empty is none yet.
func narrower(a, b Scope) Scope {
	if a == "" || slices.Index(Scopes(), b) < slices.Index(Scopes(), a) {
		return b
	}
	return a
}

// Answer is what a person says.
type Answer struct {
	Approve bool
	// By names the person, for people.
	By      string
	Comment string
	// Scope is how far a yes goes; empty is [Once].
	Scope Scope
	// Who answers, as the surface has authenticated it; the zero Identity is the
	// local operator.
	Who toolroom.Identity
	// Elicited says that Who is the caller itself, whose client was asked for
	// this very call and says that its user has answered.
	Elicited bool
	// Hook names the webhook whose signed link brought the answer; Who is empty
	// then.
	Hook string
}

// voter names whose answer it is, so that nobody counts as two people. All who
// answer on the machine itself are the one local operator.
func (a Answer) voter() string {
	if a.Hook != "" {
		return hookPrefix + a.Hook
	}
	return a.Who.Key()
}

// Vote is one person's answer.
type Vote struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	// Voter is the identity, webhook or operator that By stands for.
	Voter   string    `json:"voter"`
	Comment string    `json:"comment,omitempty"`
	Scope   Scope     `json:"scope,omitempty"`
	Time    time.Time `json:"time"`
}

// Decide takes a person's answer. One no declines, also by somebody who said
// yes before; as many yes as the terms ask
// for, of different people, approve, and then the narrowest scope that was said
// counts. An approval that has ended already, or a second answer of one person,
// is a conflict; an expired one is approval_expired, an answer by somebody who
// may not answer denied.
func (a *Approval) Decide(answer Answer, now time.Time) error {
	a.Settle(now)
	switch a.State {
	case Pending:
	case Expired:
		return a.expired()
	case Cancelled:
		return a.fail(toolroom.CodeConflict, "was cancelled with its call", "there is nothing left to answer")
	default:
		return a.fail(toolroom.CodeConflict, fmt.Sprintf("was %s by %s already", a.State, a.by()), "a decision stands; repeat the call to be asked again")
	}
	if answer.Scope == "" {
		answer.Scope = Once
	}
	if err := a.permits(answer); err != nil {
		return err
	}
	for _, v := range a.Votes {
		if answer.Approve && v.Voter == answer.voter() {
			return a.fail(toolroom.CodeConflict, fmt.Sprintf("has the answer of %s already, and needs %d people", v.Voter, a.People), "somebody else answers as well")
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

// Missing is how many people still have to approve.
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

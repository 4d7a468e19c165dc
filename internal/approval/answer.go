package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Scopes returns all scopes, narrowest first.
func Scopes() []toolroom.ApprovalScope {
	return []toolroom.ApprovalScope{toolroom.ScopeOnce, toolroom.ScopeCall, toolroom.ScopeSession, toolroom.ScopeAlways}
}

// narrower returns the narrower of two scopes. An empty a means no scope yet.
func narrower(a, b toolroom.ApprovalScope) toolroom.ApprovalScope {
	if a == "" || slices.Index(Scopes(), b) < slices.Index(Scopes(), a) {
		return b
	}
	return a
}

// voter identifies the person who answers, so that one person does not count as
// two. All who answer on the machine itself are the one local operator.
func voter(a toolroom.Answer) string {
	if a.Hook != "" {
		return hookPrefix + a.Hook
	}
	return a.Who.Key()
}

// Decide records a person's answer. A single no declines, even if the same
// person said yes before. The approval is approved once as many different people
// as the terms require have said yes; the narrowest of their scopes counts.
// Decide returns a conflict if the approval has already ended or the person has
// already approved, approval_expired if it has expired, and denied if this person
// may not answer.
func Decide(a *toolroom.Approval, answer toolroom.Answer, now time.Time) error {
	ExpireIfDue(a, now)
	if err := CheckPending(a); err != nil {
		return err
	}
	if answer.Scope == "" {
		answer.Scope = toolroom.ScopeOnce
	}
	if err := checkAnswer(a, answer); err != nil {
		return err
	}
	for _, v := range a.Votes {
		if answer.Approve && v.Voter == voter(answer) {
			return newError(a, toolroom.CodeConflict, fmt.Sprintf("already has an answer from %s, and needs %d people", v.Voter, a.People), "another person must approve as well")
		}
	}
	vote := toolroom.Vote{Approve: answer.Approve, By: answer.By, Voter: voter(answer), Comment: answer.Comment, Time: now}
	if answer.Approve {
		vote.Scope = answer.Scope
	}
	a.Votes = append(slices.Clip(a.Votes), vote)
	a.Comment = answer.Comment
	switch {
	case !answer.Approve:
		a.State, a.By, a.Answered, a.Scope = toolroom.ApprovalDeclined, answer.By, now, ""
		return nil
	default:
		a.Scope = narrower(a.Scope, answer.Scope)
	}
	if len(a.Votes) < a.People {
		return nil
	}
	a.State, a.Answered, a.By = toolroom.ApprovalApproved, now, voters(a)
	a.Expires = now.Add(a.Expires.Sub(a.Created))
	return nil
}

// CheckPending returns an error if the approval needs no answer any more: a conflict, or
// approval_expired.
func CheckPending(a *toolroom.Approval) error {
	switch a.State {
	case toolroom.ApprovalPending:
		return nil
	case toolroom.ApprovalExpired:
		return errExpired(a)
	case toolroom.ApprovalCancelled:
		return newError(a, toolroom.CodeConflict, "was cancelled together with its call", "no answer is needed any more")
	default:
		return newError(a, toolroom.CodeConflict, fmt.Sprintf("was already %s by %s", a.State, deciderOf(a)), "a decision is final; repeat the call to ask again")
	}
}

func voters(a *toolroom.Approval) string {
	names := make([]string, len(a.Votes))
	for i, v := range a.Votes {
		names[i] = v.By
	}
	return strings.Join(names, " and ")
}

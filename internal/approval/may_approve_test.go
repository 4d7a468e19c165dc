package approval_test

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

func TestOnlyAPersonWhoseApprovalCountsMayApprove(t *testing.T) {
	t.Parallel()
	now := time.Now()
	operator := toolroom.Identity{}
	ann := toolroom.Identity{Subject: "ann", Groups: []string{"approvers"}}
	bob := toolroom.Identity{Subject: "bob"}
	for name, c := range map[string]struct {
		change func(*toolroom.Approval)
		who    toolroom.Identity
		want   bool
	}{
		"the operator":                       {func(*toolroom.Approval) {}, operator, true},
		"a member of the usual group":        {func(*toolroom.Approval) {}, ann, true},
		"another person":                     {func(*toolroom.Approval) {}, toolroom.Identity{Subject: "cy"}, false},
		"the caller":                         {func(a *toolroom.Approval) { a.Approvers = []string{"bob"} }, bob, false},
		"the operator, who is not named":     {func(a *toolroom.Approval) { a.Approvers = []string{"group:approvers"} }, operator, false},
		"a person who has approved already":  {func(a *toolroom.Approval) { a.People, a.Votes = 2, []toolroom.Vote{{Approve: true, Voter: "ann"}} }, ann, false},
		"a question for this exact call":     {func(a *toolroom.Approval) { a.Scopes = []toolroom.ApprovalScope{toolroom.ScopeCall} }, ann, true},
		"a session scope without a session":  {func(a *toolroom.Approval) { a.Scopes = []toolroom.ApprovalScope{toolroom.ScopeSession} }, ann, false},
		"a question that has expired":        {func(a *toolroom.Approval) { a.Expires = now.Add(-time.Second) }, ann, false},
		"a question that has been cancelled": {func(a *toolroom.Approval) { a.State = toolroom.ApprovalCancelled }, ann, false},
	} {
		a := &toolroom.Approval{ID: "apr_1", Tool: "a:b", Identity: bob, State: toolroom.ApprovalPending, Created: now, Expires: now.Add(time.Minute)}
		c.change(a)
		state, votes := a.State, len(a.Votes)
		if got := approval.MayApprove(a, c.who, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		// Who has approved may still decline; the scopes matter only to who approves.
		wantDecline := c.want || len(a.Votes) > 0 || len(a.Scopes) > 0
		if got := approval.MayDecline(a, c.who, now); got != wantDecline {
			t.Errorf("%s: may decline: %v", name, got)
		}
		if a.State != state || len(a.Votes) != votes {
			t.Errorf("%s: the approval has changed to %+v", name, a)
		}
	}
}

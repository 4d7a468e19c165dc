package approval

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
)

var (
	agent    = toolroom.Identity{Subject: "ann", Agent: "coder"}
	finance  = toolroom.Identity{Subject: "fay", Groups: []string{"finance"}}
	anyone   = toolroom.Identity{Subject: "bob"}
	approver = toolroom.Identity{Subject: "carol", Groups: []string{"approvers"}}
	operator = toolroom.Identity{}
)

func TestWhoMayAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		approvers []string
		caller    toolroom.Identity
		answer    toolroom.Answer
		want      toolroom.Code // empty: it counts
	}{
		"the operator": {nil, agent, toolroom.Answer{Who: operator}, ""},
		"the operator's own call, on the machine": {nil, operator, toolroom.Answer{Who: operator}, ""},
		"an approver":                                {nil, agent, toolroom.Answer{Who: approver}, ""},
		"somebody":                                   {nil, agent, toolroom.Answer{Who: anyone}, toolroom.CodeDenied},
		"the caller's own token":                     {nil, agent, toolroom.Answer{Who: agent}, toolroom.CodeDenied},
		"an approver about its own call":             {nil, approver, toolroom.Answer{Who: approver}, toolroom.CodeDenied},
		"named, about its own call":                  {[]string{"ann"}, agent, toolroom.Answer{Who: agent}, toolroom.CodeDenied},
		"the caller's client":                        {nil, agent, toolroom.Answer{Who: agent, Elicited: true}, toolroom.CodeDenied},
		"the caller's client, configured":            {[]string{"caller"}, agent, toolroom.Answer{Who: agent, Elicited: true}, ""},
		"the caller's token though its client may":   {[]string{"caller"}, agent, toolroom.Answer{Who: agent}, toolroom.CodeDenied},
		"another's client":                           {[]string{"caller"}, agent, toolroom.Answer{Who: anyone, Elicited: true}, toolroom.CodeDenied},
		"the client of the operator":                 {nil, operator, toolroom.Answer{Who: operator, Elicited: true}, ""},
		"the operator's client for another's call":   {nil, agent, toolroom.Answer{Who: operator, Elicited: true}, toolroom.CodeDenied},
		"the operator where only finance may":        {[]string{"group:finance"}, agent, toolroom.Answer{Who: operator}, toolroom.CodeDenied},
		"the operator by name":                       {[]string{"dan"}, agent, toolroom.Answer{Who: operator, By: "dan"}, ""},
		"finance":                                    {[]string{"group:finance"}, agent, toolroom.Answer{Who: finance}, ""},
		"a pattern of groups":                        {[]string{"group:fin*"}, agent, toolroom.Answer{Who: finance}, ""},
		"a subject":                                  {[]string{"bo*"}, agent, toolroom.Answer{Who: anyone}, ""},
		"a hook":                                     {nil, agent, toolroom.Answer{Hook: "ops"}, ""},
		"another hook":                               {[]string{"hook:cfo"}, agent, toolroom.Answer{Hook: "ops"}, toolroom.CodeDenied},
		"a subject with the name of a hook":          {nil, agent, toolroom.Answer{Who: toolroom.Identity{Subject: "hook:ops"}}, toolroom.CodeDenied},
		"a subject with the name of the operator":    {nil, agent, toolroom.Answer{Who: toolroom.Identity{Subject: "operator"}}, toolroom.CodeDenied},
		"a subject with the name of a group":         {nil, agent, toolroom.Answer{Who: toolroom.Identity{Subject: "group:approvers"}}, toolroom.CodeDenied},
		"a subject that is no more than a wild card": {nil, agent, toolroom.Answer{Who: toolroom.Identity{Subject: "*"}}, toolroom.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, approve := range []bool{true, false} {
				a := pending(tt.caller)
				a.Approvers = tt.approvers
				answer := tt.answer
				answer.Approve = approve
				err := Decide(a, answer, a.Created)
				if err == nil && tt.want == "" {
					continue
				}
				if err == nil || toolroom.CodeOf(err) != tt.want {
					t.Errorf("approve %v: error %v, want code %q", approve, err, tt.want)
				}
				if a.State != toolroom.ApprovalPending || len(a.Votes) != 0 {
					t.Errorf("a refused answer left it %s with %d votes", a.State, len(a.Votes))
				}
			}
		})
	}
}

func TestTwoPeopleAreTwoPeople(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second toolroom.Answer
		state         toolroom.ApprovalState
		scope         toolroom.ApprovalScope
	}{
		"two approve":                         {toolroom.Answer{Approve: true, Who: approver}, toolroom.Answer{Approve: true, Who: operator}, toolroom.ApprovalApproved, toolroom.ScopeOnce},
		"the narrower scope counts":           {toolroom.Answer{Approve: true, Who: approver, Scope: toolroom.ScopeAlways}, toolroom.Answer{Approve: true, Who: operator, Scope: toolroom.ScopeCall}, toolroom.ApprovalApproved, toolroom.ScopeCall},
		"one says no":                         {toolroom.Answer{Approve: true, Who: approver}, toolroom.Answer{Who: operator}, toolroom.ApprovalDeclined, ""},
		"one person twice":                    {toolroom.Answer{Approve: true, Who: approver}, toolroom.Answer{Approve: true, Who: approver, By: "another name"}, toolroom.ApprovalPending, toolroom.ScopeOnce},
		"one token as two agents":             {toolroom.Answer{Approve: true, Who: approver}, toolroom.Answer{Approve: true, Who: toolroom.Identity{Subject: "carol", Agent: "x", Groups: []string{"approvers"}}}, toolroom.ApprovalPending, toolroom.ScopeOnce},
		"the operator under two names":        {toolroom.Answer{Approve: true, Who: operator, By: "ann"}, toolroom.Answer{Approve: true, Who: operator, By: "bob"}, toolroom.ApprovalPending, toolroom.ScopeOnce},
		"one link twice":                      {toolroom.Answer{Approve: true, Hook: "ops"}, toolroom.Answer{Approve: true, Hook: "ops"}, toolroom.ApprovalPending, toolroom.ScopeOnce},
		"two links":                           {toolroom.Answer{Approve: true, Hook: "ops"}, toolroom.Answer{Approve: true, Hook: "cfo"}, toolroom.ApprovalApproved, toolroom.ScopeOnce},
		"the caller's client and a colleague": {toolroom.Answer{Approve: true, Who: agent, Elicited: true}, toolroom.Answer{Approve: true, Who: approver}, toolroom.ApprovalApproved, toolroom.ScopeOnce},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := pending(agent)
			a.People, a.Approvers = 2, append(DefaultApprovers(), "caller")
			if err := Decide(a, tt.first, a.Created); err != nil {
				t.Fatal(err)
			}
			if a.State != toolroom.ApprovalPending || a.Missing() != 1 {
				t.Fatalf("after one answer it is %s, %d missing", a.State, a.Missing())
			}
			if err := Use(a, a.Created); toolroom.CodeOf(err) != toolroom.CodeApprovalRequired {
				t.Errorf("after one answer, Use = %v", err)
			}
			err := Decide(a, tt.second, a.Created)
			if a.State != tt.state || a.Scope != tt.scope || (err != nil) != (tt.state == toolroom.ApprovalPending) {
				t.Errorf("it is %s for %q, %v; want %s for %q", a.State, a.Scope, err, tt.state, tt.scope)
			}
		})
	}
}

func TestAYesGoesNoFurtherThanItMay(t *testing.T) {
	t.Parallel()
	a := pending(agent)
	a.Session = ""
	for scope, allowed := range map[toolroom.ApprovalScope][]toolroom.ApprovalScope{toolroom.ScopeSession: nil, toolroom.ScopeAlways: {toolroom.ScopeOnce, toolroom.ScopeCall}, "forever": nil} {
		a.Scopes = allowed
		if err := Decide(a, toolroom.Answer{Approve: true, Scope: scope}, a.Created); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s: %v", scope, err)
		}
	}
	if a.State != toolroom.ApprovalPending {
		t.Errorf("it is %s", a.State)
	}
}

func TestAGrantCoversNoMoreThanItSays(t *testing.T) {
	t.Parallel()
	asked := pending(agent)
	asked.ID, asked.Digest, asked.Session = "apr_1", "d", "s"
	give := func(scope toolroom.ApprovalScope) *toolroom.Grant {
		a := *asked
		if err := Decide(&a, toolroom.Answer{Approve: true, Scope: scope}, a.Created); err != nil {
			t.Fatal(err)
		}
		return grantFor(&a, "apg_1", time.Hour)
	}
	if g := give(toolroom.ScopeOnce); g != nil {
		t.Errorf("once became %+v", g)
	}
	for name, tt := range map[string]struct {
		change func(*toolroom.Approval)
		want   map[toolroom.ApprovalScope]bool
	}{
		"the same call":   {func(*toolroom.Approval) {}, map[toolroom.ApprovalScope]bool{toolroom.ScopeCall: true, toolroom.ScopeSession: true, toolroom.ScopeAlways: true}},
		"other arguments": {func(a *toolroom.Approval) { a.Digest = "e" }, map[toolroom.ApprovalScope]bool{toolroom.ScopeSession: true, toolroom.ScopeAlways: true}},
		"another session": {func(a *toolroom.Approval) { a.Session = "t" }, map[toolroom.ApprovalScope]bool{toolroom.ScopeCall: true, toolroom.ScopeAlways: true}},
		"no session":      {func(a *toolroom.Approval) { a.Session = "" }, map[toolroom.ApprovalScope]bool{toolroom.ScopeCall: true, toolroom.ScopeAlways: true}},
		"another tool":    {func(a *toolroom.Approval) { a.Tool = "file:delete" }, nil},
		"another version": {func(a *toolroom.Approval) { a.Tool = "file:write@2" }, nil},
		"another subject": {func(a *toolroom.Approval) { a.Identity.Subject = "bob" }, nil},
		"another agent":   {func(a *toolroom.Approval) { a.Identity.Agent = "other" }, nil},
		"stricter terms": {func(a *toolroom.Approval) {
			a.Scopes = []toolroom.ApprovalScope{toolroom.ScopeOnce, toolroom.ScopeCall}
		}, map[toolroom.ApprovalScope]bool{toolroom.ScopeCall: true}},
		"the local operator": {func(a *toolroom.Approval) { a.Identity = operator }, nil},
	} {
		for _, scope := range []toolroom.ApprovalScope{toolroom.ScopeCall, toolroom.ScopeSession, toolroom.ScopeAlways} {
			later := *asked
			tt.change(&later)
			if got := Covers(give(scope), &later); got != tt.want[scope] {
				t.Errorf("%s, given for %s: covered %v", name, scope, got)
			}
		}
	}
}

func TestAQuestionOfACallThatWasGivenUpIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		state := func(id string) toolroom.ApprovalState {
			a, err := service.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return a.State
		}
		alone := request(t, service, "alone")
		if err := service.Abandon(t.Context(), alone.ID); err != nil || state(alone.ID) != toolroom.ApprovalCancelled {
			t.Errorf("it is %s, %v", state(alone.ID), err)
		}
		_, err := service.Wait(t.Context(), alone.ID)
		wantError(t, err, toolroom.CodeCancelled)

		shared := request(t, service, "shared")
		go service.Wait(t.Context(), shared.ID)
		synctest.Wait()
		if err := service.Abandon(t.Context(), shared.ID); err != nil || state(shared.ID) != toolroom.ApprovalPending {
			t.Errorf("another call waits, and it is %s, %v", state(shared.ID), err)
		}
		answer(t, service, shared.ID, toolroom.Answer{Approve: true})

		done := make(chan struct{})
		service.KeepQuestionsAfter(done)
		close(done)
		kept := request(t, service, "kept")
		if err := service.Abandon(t.Context(), kept.ID); err != nil || state(kept.ID) != toolroom.ApprovalPending {
			t.Errorf("the process ends, and it is %s, %v", state(kept.ID), err)
		}
	})
}

func pending(caller toolroom.Identity) *toolroom.Approval {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &toolroom.Approval{Tool: "file:write", Identity: caller, Session: "s", State: toolroom.ApprovalPending, Created: now, Expires: now.Add(time.Minute)}
}

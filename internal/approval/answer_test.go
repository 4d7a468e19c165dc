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
		answer    Answer
		want      toolroom.Code // empty: it counts
	}{
		"the operator": {nil, agent, Answer{Who: operator}, ""},
		"the operator's own call, on the machine": {nil, operator, Answer{Who: operator}, ""},
		"an approver":                                {nil, agent, Answer{Who: approver}, ""},
		"somebody":                                   {nil, agent, Answer{Who: anyone}, toolroom.CodeDenied},
		"the caller's own token":                     {nil, agent, Answer{Who: agent}, toolroom.CodeDenied},
		"an approver about its own call":             {nil, approver, Answer{Who: approver}, toolroom.CodeDenied},
		"named, about its own call":                  {[]string{"ann"}, agent, Answer{Who: agent}, toolroom.CodeDenied},
		"the caller's client":                        {nil, agent, Answer{Who: agent, Elicited: true}, toolroom.CodeDenied},
		"the caller's client, configured":            {[]string{"caller"}, agent, Answer{Who: agent, Elicited: true}, ""},
		"the caller's token though its client may":   {[]string{"caller"}, agent, Answer{Who: agent}, toolroom.CodeDenied},
		"another's client":                           {[]string{"caller"}, agent, Answer{Who: anyone, Elicited: true}, toolroom.CodeDenied},
		"the client of the operator":                 {nil, operator, Answer{Who: operator, Elicited: true}, ""},
		"the operator's client for another's call":   {nil, agent, Answer{Who: operator, Elicited: true}, toolroom.CodeDenied},
		"the operator where only finance may":        {[]string{"group:finance"}, agent, Answer{Who: operator}, toolroom.CodeDenied},
		"the operator by name":                       {[]string{"dan"}, agent, Answer{Who: operator, By: "dan"}, ""},
		"finance":                                    {[]string{"group:finance"}, agent, Answer{Who: finance}, ""},
		"a pattern of groups":                        {[]string{"group:fin*"}, agent, Answer{Who: finance}, ""},
		"a subject":                                  {[]string{"bo*"}, agent, Answer{Who: anyone}, ""},
		"a hook":                                     {nil, agent, Answer{Hook: "ops"}, ""},
		"another hook":                               {[]string{"hook:cfo"}, agent, Answer{Hook: "ops"}, toolroom.CodeDenied},
		"a subject with the name of a hook":          {nil, agent, Answer{Who: toolroom.Identity{Subject: "hook:ops"}}, toolroom.CodeDenied},
		"a subject with the name of the operator":    {nil, agent, Answer{Who: toolroom.Identity{Subject: "operator"}}, toolroom.CodeDenied},
		"a subject with the name of a group":         {nil, agent, Answer{Who: toolroom.Identity{Subject: "group:approvers"}}, toolroom.CodeDenied},
		"a subject that is no more than a wild card": {nil, agent, Answer{Who: toolroom.Identity{Subject: "*"}}, toolroom.CodeDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, approve := range []bool{true, false} {
				a := pending(tt.caller)
				a.Approvers = tt.approvers
				answer := tt.answer
				answer.Approve = approve
				err := a.Decide(answer, a.Created)
				if err == nil && tt.want == "" {
					continue
				}
				if err == nil || toolroom.CodeOf(err) != tt.want {
					t.Errorf("approve %v: error %v, want code %q", approve, err, tt.want)
				}
				if a.State != Pending || len(a.Votes) != 0 {
					t.Errorf("a refused answer left it %s with %d votes", a.State, len(a.Votes))
				}
			}
		})
	}
}

func TestTwoPeopleAreTwoPeople(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first, second Answer
		state         State
		scope         Scope
	}{
		"two approve":                         {Answer{Approve: true, Who: approver}, Answer{Approve: true, Who: operator}, Approved, Once},
		"the narrower scope counts":           {Answer{Approve: true, Who: approver, Scope: Always}, Answer{Approve: true, Who: operator, Scope: ThisCall}, Approved, ThisCall},
		"one says no":                         {Answer{Approve: true, Who: approver}, Answer{Who: operator}, Declined, ""},
		"one person twice":                    {Answer{Approve: true, Who: approver}, Answer{Approve: true, Who: approver, By: "another name"}, Pending, Once},
		"one token as two agents":             {Answer{Approve: true, Who: approver}, Answer{Approve: true, Who: toolroom.Identity{Subject: "carol", Agent: "x", Groups: []string{"approvers"}}}, Pending, Once},
		"the operator under two names":        {Answer{Approve: true, Who: operator, By: "ann"}, Answer{Approve: true, Who: operator, By: "bob"}, Pending, Once},
		"one link twice":                      {Answer{Approve: true, Hook: "ops"}, Answer{Approve: true, Hook: "ops"}, Pending, Once},
		"two links":                           {Answer{Approve: true, Hook: "ops"}, Answer{Approve: true, Hook: "cfo"}, Approved, Once},
		"the caller's client and a colleague": {Answer{Approve: true, Who: agent, Elicited: true}, Answer{Approve: true, Who: approver}, Approved, Once},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := pending(agent)
			a.People, a.Approvers = 2, append(DefaultApprovers(), "caller")
			if err := a.Decide(tt.first, a.Created); err != nil {
				t.Fatal(err)
			}
			if a.State != Pending || a.Missing() != 1 {
				t.Fatalf("after one answer it is %s, %d missing", a.State, a.Missing())
			}
			if err := a.Use(a.Created); toolroom.CodeOf(err) != toolroom.CodeApprovalRequired {
				t.Errorf("after one answer, Use = %v", err)
			}
			err := a.Decide(tt.second, a.Created)
			if a.State != tt.state || a.Scope != tt.scope || (err != nil) != (tt.state == Pending) {
				t.Errorf("it is %s for %q, %v; want %s for %q", a.State, a.Scope, err, tt.state, tt.scope)
			}
		})
	}
}

func TestAYesGoesNoFurtherThanItMay(t *testing.T) {
	t.Parallel()
	a := pending(agent)
	a.Session = ""
	for scope, allowed := range map[Scope][]Scope{ThisSession: nil, Always: {Once, ThisCall}, "forever": nil} {
		a.Scopes = allowed
		if err := a.Decide(Answer{Approve: true, Scope: scope}, a.Created); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s: %v", scope, err)
		}
	}
	if a.State != Pending {
		t.Errorf("it is %s", a.State)
	}
}

func TestAGrantCoversNoMoreThanItSays(t *testing.T) {
	t.Parallel()
	asked := pending(agent)
	asked.ID, asked.Digest, asked.Session = "apr_1", "d", "s"
	give := func(scope Scope) *Grant {
		a := *asked
		if err := a.Decide(Answer{Approve: true, Scope: scope}, a.Created); err != nil {
			t.Fatal(err)
		}
		return grantFor(&a, "apg_1", time.Hour)
	}
	if g := give(Once); g != nil {
		t.Errorf("once became %+v", g)
	}
	for name, tt := range map[string]struct {
		change func(*Approval)
		want   map[Scope]bool
	}{
		"the same call":      {func(*Approval) {}, map[Scope]bool{ThisCall: true, ThisSession: true, Always: true}},
		"other arguments":    {func(a *Approval) { a.Digest = "e" }, map[Scope]bool{ThisSession: true, Always: true}},
		"another session":    {func(a *Approval) { a.Session = "t" }, map[Scope]bool{ThisCall: true, Always: true}},
		"no session":         {func(a *Approval) { a.Session = "" }, map[Scope]bool{ThisCall: true, Always: true}},
		"another tool":       {func(a *Approval) { a.Tool = "file:delete" }, nil},
		"another version":    {func(a *Approval) { a.Tool = "file:write@2" }, nil},
		"another subject":    {func(a *Approval) { a.Identity.Subject = "bob" }, nil},
		"another agent":      {func(a *Approval) { a.Identity.Agent = "other" }, nil},
		"stricter terms":     {func(a *Approval) { a.Scopes = []Scope{Once, ThisCall} }, map[Scope]bool{ThisCall: true}},
		"the local operator": {func(a *Approval) { a.Identity = operator }, nil},
	} {
		for _, scope := range []Scope{ThisCall, ThisSession, Always} {
			later := *asked
			tt.change(&later)
			if got := give(scope).Covers(&later); got != tt.want[scope] {
				t.Errorf("%s, given for %s: covered %v", name, scope, got)
			}
		}
	}
}

func TestAQuestionOfACallThatWasGivenUpIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		state := func(id string) State {
			a, err := service.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return a.State
		}
		alone := request(t, service, "alone")
		if err := service.Abandon(t.Context(), alone.ID); err != nil || state(alone.ID) != Cancelled {
			t.Errorf("it is %s, %v", state(alone.ID), err)
		}
		_, err := service.Wait(t.Context(), alone.ID)
		wantError(t, err, toolroom.CodeCancelled)

		shared := request(t, service, "shared")
		go service.Wait(t.Context(), shared.ID)
		synctest.Wait()
		if err := service.Abandon(t.Context(), shared.ID); err != nil || state(shared.ID) != Pending {
			t.Errorf("another call waits, and it is %s, %v", state(shared.ID), err)
		}
		answer(t, service, shared.ID, Answer{Approve: true})

		done := make(chan struct{})
		service.KeepOnceDone(done)
		close(done)
		kept := request(t, service, "kept")
		if err := service.Abandon(t.Context(), kept.ID); err != nil || state(kept.ID) != Pending {
			t.Errorf("the process ends, and it is %s, %v", state(kept.ID), err)
		}
	})
}

func pending(caller toolroom.Identity) *Approval {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &Approval{Tool: "file:write", Identity: caller, Session: "s", State: Pending, Created: now, Expires: now.Add(time.Minute)}
}

package approval

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
)

func TestALinkIsGoodForItsQuestionItsHookAndItsTimeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		service := New(store, Options{})
		a := request(t, service, "digest")
		link := service.Link(a, "pager")
		got, hook, err := service.OpenLink(t.Context(), link)
		if err != nil || got.ID != a.ID || hook != "pager" {
			t.Fatalf("%+v, %q, %v", got, hook, err)
		}
		body, mac, _ := strings.Cut(link, ".")
		other, otherMAC, _ := strings.Cut(service.Link(request(t, service, "other"), "pager"), ".")
		forged := []string{
			"", ".", body, body + ".", "." + mac, other + "." + mac, body + "." + otherMAC, body + "." + mac[1:], "!" + link, body + ".!",
			service.Link(a, "pager") + "A", New(store, Options{}).Link(a, "pager"), // of another key
		}
		for _, text := range forged {
			if _, _, err := service.OpenLink(t.Context(), text); toolroom.CodeOf(err) != toolroom.CodeDenied {
				t.Errorf("%q: %v", text, err)
			}
		}
		time.Sleep(15*time.Minute - time.Nanosecond)
		if _, _, err := service.OpenLink(t.Context(), link); err != nil {
			t.Errorf("just before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, _, err := service.OpenLink(t.Context(), link); toolroom.CodeOf(err) != toolroom.CodeApprovalExpired {
			t.Errorf("at its end: %v", err)
		}
	})
}

func TestARepeatUsesOnlyAnAnswerThatIsForOneCallAndUnused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tt := range []struct {
		name string
		a    toolroom.Approval
		want bool
	}{
		{"pending", toolroom.Approval{State: toolroom.ApprovalPending}, true},
		{"approved once", toolroom.Approval{State: toolroom.ApprovalApproved, Scope: toolroom.ScopeOnce}, true},
		{"approved for the session, which is a grant", toolroom.Approval{State: toolroom.ApprovalApproved, Scope: toolroom.ScopeSession}, false},
		{"approved once and used", toolroom.Approval{State: toolroom.ApprovalApproved, Scope: toolroom.ScopeOnce, Used: now}, false},
		{"declined", toolroom.Approval{State: toolroom.ApprovalDeclined}, true},
		{"declined and told", toolroom.Approval{State: toolroom.ApprovalDeclined, Used: now}, false},
		{"cancelled, with the scope of an answer", toolroom.Approval{State: toolroom.ApprovalCancelled, Scope: toolroom.ScopeOnce}, false},
	} {
		tt.a.Expires = now.Add(time.Second)
		if got := IsOpen(&tt.a, now); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if IsOpen(&tt.a, now.Add(time.Second)) {
			t.Errorf("%s: open after its time", tt.name)
		}
	}
}

func TestOnlyWhatIsPendingExpires(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, state := range []toolroom.ApprovalState{toolroom.ApprovalPending, toolroom.ApprovalApproved, toolroom.ApprovalDeclined, toolroom.ApprovalCancelled} {
		before, after := toolroom.Approval{State: state, Expires: now.Add(1)}, toolroom.Approval{State: state, Expires: now}
		ExpireIfDue(&before, now)
		ExpireIfDue(&after, now)
		want := state
		if state == toolroom.ApprovalPending {
			want = toolroom.ApprovalExpired
		}
		if before.State != state || after.State != want {
			t.Errorf("%s: %s before its end, %s at its end", state, before.State, after.State)
		}
	}
}

func TestTermsNameWhoMayAnswer(t *testing.T) {
	t.Parallel()
	operator, ann, bob := toolroom.Identity{}, toolroom.Identity{Subject: "ann", Groups: []string{"approvers"}}, toolroom.Identity{Subject: "bob"}
	for _, tt := range []struct {
		approvers          []string
		operator, ann, bob bool
	}{
		{nil, true, true, false},
		{[]string{"operator"}, true, false, false},
		{[]string{"bob"}, false, false, true},
		{[]string{"group:app*"}, false, true, false},
		{[]string{"hook:*"}, false, false, false},
	} {
		terms := toolroom.ApprovalTerms{Approvers: tt.approvers}
		if IsApprover(terms, operator) != tt.operator || IsApprover(terms, ann) != tt.ann || IsApprover(terms, bob) != tt.bob {
			t.Errorf("%v: %v %v %v", tt.approvers, IsApprover(terms, operator), IsApprover(terms, ann), IsApprover(terms, bob))
		}
	}
	for _, tt := range []struct {
		approvers     []string
		operator, ann bool
	}{{[]string{"caller"}, true, true}, {[]string{"operator"}, true, false}, {[]string{"ann"}, false, false}} {
		terms := toolroom.ApprovalTerms{Approvers: tt.approvers}
		if CallerMayAnswer(terms, operator) != tt.operator || CallerMayAnswer(terms, ann) != tt.ann {
			t.Errorf("callers, %v: %v %v", tt.approvers, CallerMayAnswer(terms, operator), CallerMayAnswer(terms, ann))
		}
	}
	for _, reserved := range []string{"operator", "caller", "group:approvers", "hook:pager"} {
		if terms := (toolroom.ApprovalTerms{Approvers: []string{"operator", "caller", "group:*", "hook:*"}}); IsApprover(terms, toolroom.Identity{Subject: reserved}) {
			t.Errorf("a token with the subject %q passes for one", reserved)
		}
	}
	for word, good := range map[string]bool{"ann": true, "group:a*": true, "": false, "[": false} {
		if err := CheckApprover(word); (err == nil) != good {
			t.Errorf("%q: %v", word, err)
		}
	}
}

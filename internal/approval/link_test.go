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
		a    Approval
		want bool
	}{
		{"pending", Approval{State: Pending}, true},
		{"approved once", Approval{State: Approved, Scope: Once}, true},
		{"approved for the session, which is a grant", Approval{State: Approved, Scope: ThisSession}, false},
		{"approved once and used", Approval{State: Approved, Scope: Once, Used: now}, false},
		{"declined", Approval{State: Declined}, true},
		{"declined and told", Approval{State: Declined, Used: now}, false},
		{"cancelled, with the scope of an answer", Approval{State: Cancelled, Scope: Once}, false},
	} {
		tt.a.Expires = now.Add(time.Second)
		if got := tt.a.Open(now); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if tt.a.Open(now.Add(time.Second)) {
			t.Errorf("%s: open after its time", tt.name)
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
		terms := Terms{Approvers: tt.approvers}
		if terms.IsFor(operator) != tt.operator || terms.IsFor(ann) != tt.ann || terms.IsFor(bob) != tt.bob {
			t.Errorf("%v: %v %v %v", tt.approvers, terms.IsFor(operator), terms.IsFor(ann), terms.IsFor(bob))
		}
	}
	for _, reserved := range []string{"operator", "caller", "group:approvers", "hook:pager"} {
		if terms := (Terms{Approvers: []string{"operator", "caller", "group:*", "hook:*"}}); terms.IsFor(toolroom.Identity{Subject: reserved}) {
			t.Errorf("a token with the subject %q passes for one", reserved)
		}
	}
	for word, good := range map[string]bool{"ann": true, "group:a*": true, "": false, "[": false} {
		if err := CheckApprover(word); (err == nil) != good {
			t.Errorf("%q: %v", word, err)
		}
	}
}

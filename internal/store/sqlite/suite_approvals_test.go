package sqlite

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

const approvalTTL = 15 * time.Minute

var approvalTests = []test{
	{"an approval comes back whole, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		want := newApproval("apr_1", "digest")
		made, err := s.CreateApproval(t.Context(), want)
		must(t, err)
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			got, err := s.Approval(t.Context(), "apr_1", start)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("CreateApproval (-want +got):\n%s", diff)
		}
	}},
	{"an unknown approval is not found", func(t *testing.T, d database) {
		s := d.open(t)
		_, err := s.Approval(t.Context(), "none", start)
		wantCode(t, "Approval", err, toolroom.CodeNotFound)
		_, err = s.AnswerApproval(t.Context(), "none", toolroom.Answer{}, start, noGrant)
		wantCode(t, "AnswerApproval", err, toolroom.CodeNotFound)
		wantCode(t, "UseApproval", s.UseApproval(t.Context(), "none", start), toolroom.CodeNotFound)
	}},
	{"an id that is taken is a conflict", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "one"))
		_, err := s.CreateApproval(t.Context(), newApproval("apr_1", "two"))
		wantCode(t, "CreateApproval", err, toolroom.CodeConflict)
	}},
	{"one question is open for a call at a time", testOneOpenApproval},
	{"a subject has a bounded number of pending approvals, whatever it names itself", func(t *testing.T, d database) {
		s := d.open(t)
		for i := range approval.MaxPending {
			a := newApproval(fmt.Sprintf("apr_%d", i), fmt.Sprintf("digest %d", i))
			a.Identity.Agent = fmt.Sprintf("agent %d", i)
			createApproval(t, s, a)
		}
		_, err := s.CreateApproval(t.Context(), newApproval("apr_more", "more"))
		wantCode(t, "CreateApproval", err, toolroom.CodeRateLimited)
		if same := createApproval(t, s, newApproval("apr_same", "digest 7")); same.ID != "apr_7" {
			t.Errorf("a repeat of an open question is %s, want apr_7", same.ID)
		}
		other := newApproval("apr_other", "other")
		other.Identity.Subject = ""
		createApproval(t, s, other)
		answerApproval(t, s, "apr_0", toolroom.Answer{Approve: true}, start)
		createApproval(t, s, newApproval("apr_next", "next"))
		late := newApproval("apr_late", "late")
		late.Created, late.Expires = start.Add(2*approvalTTL), start.Add(3*approvalTTL)
		createApproval(t, s, late)
	}},
	{"a used approval does not stand in for the open question after it", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		answerApproval(t, s, "apr_1", toolroom.Answer{Approve: true}, start.Add(time.Minute))
		must(t, s.UseApproval(t.Context(), "apr_1", start.Add(time.Minute)))
		createApproval(t, s, newApproval("apr_2", "digest"))
		if got := createApproval(t, s, newApproval("apr_3", "digest")); got.ID != "apr_2" {
			t.Errorf("got %s, want apr_2", got.ID)
		}
	}},
	{"a question expires with its time", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		for after, want := range map[time.Duration]toolroom.ApprovalState{0: toolroom.ApprovalPending, approvalTTL - time.Microsecond: toolroom.ApprovalPending, approvalTTL: toolroom.ApprovalExpired} {
			got, err := s.Approval(t.Context(), "apr_1", start.Add(after))
			must(t, err)
			if got.State != want {
				t.Errorf("after %v it is %s, want %s", after, got.State, want)
			}
		}
		_, err := s.AnswerApproval(t.Context(), "apr_1", toolroom.Answer{Approve: true}, start.Add(approvalTTL), noGrant)
		wantCode(t, "answer", err, toolroom.CodeApprovalExpired)
		wantCode(t, "use", s.UseApproval(t.Context(), "apr_1", start.Add(approvalTTL)), toolroom.CodeApprovalExpired)
	}},
	{"what has expired stays so when the clock goes back", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("pending", "p"))
		createApproval(t, s, newApproval("approved", "a"))
		answerApproval(t, s, "approved", toolroom.Answer{Approve: true}, start.Add(time.Second))
		must(t, s.ExpireApprovals(t.Context(), start.Add(time.Minute)))
		for _, id := range []string{"pending", "approved"} {
			if got, err := s.Approval(t.Context(), id, start); err != nil || got.State == toolroom.ApprovalExpired {
				t.Fatalf("%s has expired early: %v", id, err)
			}
		}
		must(t, s.ExpireApprovals(t.Context(), start.Add(2*approvalTTL)))
		_, err := s.AnswerApproval(t.Context(), "pending", toolroom.Answer{Approve: true}, start, noGrant)
		wantCode(t, "answer", err, toolroom.CodeApprovalExpired)
		wantCode(t, "use", s.UseApproval(t.Context(), "approved", start.Add(time.Second)), toolroom.CodeApprovalExpired)
		list, err := s.Approvals(t.Context(), toolroom.ApprovalExpired, start)
		must(t, err)
		if len(list) != 2 {
			t.Errorf("%d are listed as expired", len(list))
		}
		if got := createApproval(t, s, newApproval("again", "p")); got.ID != "again" {
			t.Errorf("a repeat got %s", got.ID)
		}
	}},
	{"lists are by state, oldest first", testApprovalLists},
	{"an answer is kept with who, when and why", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		answered := start.Add(time.Minute)
		got := answerApproval(t, s, "apr_1", toolroom.Answer{Approve: true, By: "ann", Comment: "go on"}, answered)
		want := newApproval("apr_1", "digest")
		want.State, want.Answered, want.By, want.Comment, want.Scope = toolroom.ApprovalApproved, answered, "ann", "go on", toolroom.ScopeOnce
		want.Votes = []toolroom.Vote{{Approve: true, By: "ann", Voter: "local", Comment: "go on", Scope: toolroom.ScopeOnce, Time: answered}}
		want.Expires = answered.Add(approvalTTL)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("AnswerApproval (-want +got):\n%s", diff)
		}
		stored, err := d.open(t).Approval(t.Context(), "apr_1", answered)
		must(t, err)
		if diff := cmp.Diff(want, stored); diff != "" {
			t.Errorf("reopened (-want +got):\n%s", diff)
		}
	}},
	{"a second answer is a conflict and changes nothing", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		answerApproval(t, s, "apr_1", toolroom.Answer{By: "ann"}, start)
		_, err := s.AnswerApproval(t.Context(), "apr_1", toolroom.Answer{Approve: true, By: "bob"}, start, noGrant)
		wantCode(t, "AnswerApproval", err, toolroom.CodeConflict)
		got, err := s.Approval(t.Context(), "apr_1", start)
		must(t, err)
		if got.State != toolroom.ApprovalDeclined || got.By != "ann" {
			t.Errorf("it is %s by %s now", got.State, got.By)
		}
	}},
	{"an approval serves once", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		wantCode(t, "pending", s.UseApproval(t.Context(), "apr_1", start), toolroom.CodeApprovalRequired)
		answerApproval(t, s, "apr_1", toolroom.Answer{Approve: true}, start)
		used := start.Add(time.Minute)
		must(t, s.UseApproval(t.Context(), "apr_1", used))
		wantCode(t, "used", d.open(t).UseApproval(t.Context(), "apr_1", used), toolroom.CodeConflict)
		got, err := s.Approval(t.Context(), "apr_1", used)
		must(t, err)
		if !got.Used.Equal(used) {
			t.Errorf("used at %v, want %v", got.Used, used)
		}
	}},
	{"two people answer, and the grant is stored with the second answer", func(t *testing.T, d database) {
		s := d.open(t)
		asked := newApproval("apr_1", "digest")
		asked.People = 2
		createApproval(t, s, asked)
		grant := func(a *toolroom.Approval) *toolroom.Grant {
			if a.State != toolroom.ApprovalApproved {
				return nil
			}
			return newGrant("apg_1")
		}
		answer := func(by string, who toolroom.Identity) *toolroom.Approval {
			a, err := s.AnswerApproval(t.Context(), "apr_1", toolroom.Answer{Approve: true, By: by, Who: who}, start, grant)
			must(t, err)
			return a
		}
		if a := answer("ann", toolroom.Identity{}); a.State != toolroom.ApprovalPending || a.Missing() != 1 {
			t.Errorf("after one answer it is %s, %d missing", a.State, a.Missing())
		}
		if grants, err := s.Grants(t.Context(), "", "", start); len(grants) != 0 || err != nil {
			t.Errorf("after one answer there are %d grants, %v", len(grants), err)
		}
		_, err := s.AnswerApproval(t.Context(), "apr_1", toolroom.Answer{Approve: true, By: "another name"}, start, grant)
		wantCode(t, "the same person again", err, toolroom.CodeConflict)
		if a := answer("bob", toolroom.Identity{Subject: "bob"}); a.State != toolroom.ApprovalApproved || a.By != "ann and bob" {
			t.Errorf("after two answers it is %s by %s", a.State, a.By)
		}
		grants, err := d.open(t).Grants(t.Context(), "", "", start)
		must(t, err)
		if diff := cmp.Diff([]*toolroom.Grant{newGrant("apg_1")}, grants); diff != "" {
			t.Errorf("grants (-want +got):\n%s", diff)
		}
	}},
	{"a grant is found by tool and caller until it is removed or over", testGrants},
	{"a cancelled question cannot be answered or used", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		must(t, s.CancelApproval(t.Context(), "apr_1", start))
		_, err := s.AnswerApproval(t.Context(), "apr_1", toolroom.Answer{Approve: true}, start, noGrant)
		wantCode(t, "answer", err, toolroom.CodeConflict)
		wantCode(t, "use", s.UseApproval(t.Context(), "apr_1", start), toolroom.CodeCancelled)
		if a := createApproval(t, s, newApproval("apr_2", "digest")); a.ID != "apr_2" {
			t.Errorf("a repeat of the call got %s", a.ID)
		}
		answerApproval(t, s, "apr_2", toolroom.Answer{Approve: true}, start)
		must(t, s.CancelApproval(t.Context(), "apr_2", start))
		if a, err := s.Approval(t.Context(), "apr_2", start); err != nil || a.State != toolroom.ApprovalApproved {
			t.Errorf("an answered one became %+v, %v", a, err)
		}
		wantCode(t, "unknown", s.CancelApproval(t.Context(), "none", start), toolroom.CodeNotFound)
	}},
	{"a sweep removes what ended before, and nothing else", func(t *testing.T, d database) {
		s := d.open(t)
		for _, id := range []string{"open", "done", "late"} {
			a := newApproval(id, id)
			if id == "late" {
				a.Expires = a.Expires.Add(24 * time.Hour)
			}
			createApproval(t, s, a)
		}
		answerApproval(t, s, "done", toolroom.Answer{}, start)
		if n, err := s.SweepApprovals(t.Context(), start); n != 0 || err != nil {
			t.Errorf("before their end: %d, %v", n, err)
		}
		if n, err := s.SweepApprovals(t.Context(), start.Add(time.Hour)); n != 2 || err != nil {
			t.Errorf("an hour later: %d, %v", n, err)
		}
		list, err := s.Approvals(t.Context(), "", start)
		must(t, err)
		if len(list) != 1 || list[0].ID != "late" {
			t.Errorf("left are %v", list)
		}
	}},
	{"of many who ask about one call at once, one question results", func(t *testing.T, d database) {
		var mu sync.Mutex
		ids := map[string]bool{}
		race(t, d, func(s *Store, racer int) bool {
			a, err := s.CreateApproval(t.Context(), newApproval(fmt.Sprintf("apr_%d", racer), "digest"))
			if err != nil {
				t.Error(err)
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			ids[a.ID] = true
			return true
		})
		if len(ids) != 1 {
			t.Errorf("%d questions about one call", len(ids))
		}
	}},
	{"of many who answer at once, one decides", func(t *testing.T, d database) {
		createApproval(t, d.open(t), newApproval("apr_1", "digest"))
		wins := race(t, d, func(s *Store, racer int) bool {
			_, err := s.AnswerApproval(t.Context(), "apr_1", toolroom.Answer{Approve: racer%2 == 0}, start, noGrant)
			return won(t, err)
		})
		if wins != 1 {
			t.Errorf("%d answers were taken", wins)
		}
	}},
	{"of many who use an approval at once, one gets it", func(t *testing.T, d database) {
		s := d.open(t)
		createApproval(t, s, newApproval("apr_1", "digest"))
		answerApproval(t, s, "apr_1", toolroom.Answer{Approve: true}, start)
		wins := race(t, d, func(s *Store, _ int) bool {
			return won(t, s.UseApproval(t.Context(), "apr_1", start))
		})
		if wins != 1 {
			t.Errorf("%d uses of one approval", wins)
		}
	}},
}

func testOneOpenApproval(t *testing.T, d database) {
	answer := func(a toolroom.Answer) func(*testing.T, *Store) {
		return func(t *testing.T, s *Store) { answerApproval(t, s, "apr_1", a, start.Add(time.Minute)) }
	}
	for name, tt := range map[string]struct {
		digest string
		before func(*testing.T, *Store)
		after  time.Duration
		open   bool
	}{
		"pending":                  {"a", func(*testing.T, *Store) {}, 2 * time.Minute, true},
		"pending, of another call": {"z", func(*testing.T, *Store) {}, 2 * time.Minute, false},
		"expired":                  {"a", func(*testing.T, *Store) {}, approvalTTL, false},
		"declined, not read yet":   {"a", answer(toolroom.Answer{}), 2 * time.Minute, true},
		"declined and over":        {"a", answer(toolroom.Answer{}), approvalTTL, false},
		"declined and read": {"a", func(t *testing.T, s *Store) {
			answer(toolroom.Answer{})(t, s)
			for range 2 { // a read by id may be repeated
				wantCode(t, "use", s.UseApproval(t.Context(), "apr_1", start.Add(time.Minute)), toolroom.CodeApprovalDeclined)
			}
		}, 2 * time.Minute, false},
		"approved":              {"a", answer(toolroom.Answer{Approve: true}), 2 * time.Minute, true},
		"approved near its end": {"a", answer(toolroom.Answer{Approve: true}), approvalTTL + 59*time.Second, true},
		"approved and over":     {"a", answer(toolroom.Answer{Approve: true}), approvalTTL + time.Minute, false},
		"used": {"a", func(t *testing.T, s *Store) {
			answer(toolroom.Answer{Approve: true})(t, s)
			must(t, s.UseApproval(t.Context(), "apr_1", start.Add(time.Minute)))
		}, 2 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := d.open(t)
			d.execute(t, "DELETE FROM approvals")
			createApproval(t, s, newApproval("apr_1", "a"))
			tt.before(t, s)
			again := newApproval("apr_2", tt.digest)
			again.Created = start.Add(tt.after)
			again.Expires = again.Created.Add(approvalTTL)
			want := "apr_2"
			if tt.open {
				want = "apr_1"
			}
			if got := createApproval(t, s, again); got.ID != want {
				t.Errorf("got %s, want %s", got.ID, want)
			}
		})
	}
}

func newGrant(id string) *toolroom.Grant {
	return &toolroom.Grant{
		ID: id, Approval: "apr_1", Scope: toolroom.ScopeAlways, Tool: "file:write", Identity: toolroom.Identity{Subject: "ann", Groups: []string{"dev"}},
		Environment: "test", Session: "s", Digest: "d", By: "bob", Created: start,
	}
}

func testGrants(t *testing.T, d database) {
	s := d.open(t)
	give := func(g *toolroom.Grant) {
		createApproval(t, s, newApproval("for_"+g.ID, g.ID))
		_, err := s.AnswerApproval(t.Context(), "for_"+g.ID, toolroom.Answer{Approve: true}, start, func(*toolroom.Approval) *toolroom.Grant { return g })
		must(t, err)
	}
	brief := newGrant("brief")
	brief.Expires = start.Add(time.Hour)
	other := newGrant("other")
	other.Identity.Agent = "x"
	for _, g := range []*toolroom.Grant{newGrant("lasting"), brief, other} {
		give(g)
	}
	ann := approval.Caller(brief.Identity)
	want := func(tool, caller string, now time.Time, want ...string) {
		t.Helper()
		grants, err := s.Grants(t.Context(), tool, caller, now)
		must(t, err)
		got := []string{}
		for _, g := range grants {
			got = append(got, g.ID)
		}
		if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
			t.Errorf("grants (-want +got):\n%s", diff)
		}
	}
	want("", "", start, "lasting", "brief", "other")
	want("file:write", ann, start, "lasting", "brief")
	want("file:write", ann, start.Add(time.Hour), "lasting")
	want("file:read", ann, start)
	must(t, s.RemoveGrant(t.Context(), "lasting"))
	wantCode(t, "RemoveGrant again", s.RemoveGrant(t.Context(), "lasting"), toolroom.CodeNotFound)
	want("file:write", "", start.Add(time.Hour), "other")
}

func testApprovalLists(t *testing.T, d database) {
	s := d.open(t)
	for _, id := range []string{"pending", "approved", "declined", "later"} {
		a := newApproval(id, id)
		if id == "later" {
			a.Expires = a.Expires.Add(time.Hour)
		}
		createApproval(t, s, a)
	}
	answerApproval(t, s, "approved", toolroom.Answer{Approve: true}, start)
	answerApproval(t, s, "declined", toolroom.Answer{}, start)
	for _, tt := range []struct {
		state toolroom.ApprovalState
		now   time.Time
		want  []string
	}{
		{"", start, []string{"pending", "approved", "declined", "later"}},
		{toolroom.ApprovalPending, start, []string{"pending", "later"}},
		{toolroom.ApprovalExpired, start, []string{}},
		{toolroom.ApprovalApproved, start, []string{"approved"}},
		{toolroom.ApprovalDeclined, start, []string{"declined"}},
		{toolroom.ApprovalPending, start.Add(approvalTTL), []string{"later"}},
		{toolroom.ApprovalExpired, start.Add(approvalTTL), []string{"pending"}},
		{"unheard of", start, []string{}},
	} {
		list, err := s.Approvals(t.Context(), tt.state, tt.now)
		must(t, err)
		got := []string{}
		for _, a := range list {
			got = append(got, a.ID)
			if tt.state != "" && a.State != tt.state {
				t.Errorf("%s is listed as %q but says %q", a.ID, tt.state, a.State)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q at %v (-want +got):\n%s", tt.state, tt.now, diff)
		}
	}
}

func noGrant(*toolroom.Approval) *toolroom.Grant { return nil }

func newApproval(id, digest string) *toolroom.Approval {
	return &toolroom.Approval{
		ID: id, Call: "call_1", Digest: digest, Tool: "file:write",
		Arguments: json.RawMessage(`{"path":"a b","n":12345678901234567890}`),
		Identity:  toolroom.Identity{Subject: "ann", Groups: []string{"dev"}},
		Session:   "s", Environment: "test", Reason: "confirm[0]", State: toolroom.ApprovalPending,
		Effects: []string{"writes a b"}, Diff: "-old\n+new\n",
		ApprovalTerms: toolroom.ApprovalTerms{People: 1, Approvers: []string{"operator", "b*"}, Scopes: approval.Scopes()},
		Created:       start, Expires: start.Add(approvalTTL),
	}
}

func createApproval(t *testing.T, s *Store, a *toolroom.Approval) *toolroom.Approval {
	t.Helper()
	made, err := s.CreateApproval(t.Context(), a)
	must(t, err)
	return made
}

func answerApproval(t *testing.T, s *Store, id string, answer toolroom.Answer, now time.Time) *toolroom.Approval {
	t.Helper()
	a, err := s.AnswerApproval(t.Context(), id, answer, now, noGrant)
	must(t, err)
	return a
}

// won reports whether a racer won. A racer that loses must get a conflict.
func won(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		wantCode(t, "losing", err, toolroom.CodeConflict)
	}
	return err == nil
}

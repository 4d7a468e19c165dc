package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

type fixture struct {
	approvals *approval.Service
	asked     *toolroom.Approval
	handler   http.Handler
	now       time.Time
}

func open(t *testing.T, terms toolroom.ApprovalTerms) *fixture {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f := &fixture{now: time.Now()}
	f.approvals = approval.New(store, approval.Options{
		Now:   func() time.Time { return f.now },
		Terms: func(string) toolroom.ApprovalTerms { return terms },
	})
	f.asked, err = f.approvals.Request(t.Context(), toolroom.Approval{
		Digest: "d", Tool: "payments:send", Arguments: json.RawMessage(`{"to":"<script>alert(1)</script>"}`),
		Identity: toolroom.Identity{Subject: "ann"}, Environment: "test", Effects: []string{"sends 5 EUR"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.handler = answerHandler(f.approvals, slog.New(slog.DiscardHandler))
	return f
}

func (f *fixture) do(method, target string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

func (f *fixture) state(t *testing.T) toolroom.ApprovalState {
	t.Helper()
	a, err := f.approvals.Get(t.Context(), f.asked.ID)
	if err != nil {
		t.Fatal(err)
	}
	return a.State
}

var yes = url.Values{"answer": {"approve"}}

func TestALinkThatIsOpenedShowsTheCallAndApprovesNothing(t *testing.T) {
	t.Parallel()
	f := open(t, toolroom.ApprovalTerms{})
	link := approval.AnswerPath + f.approvals.Link(f.asked, "ops")
	for range 3 { // a mail scanner, a chat preview, the person
		w := f.do(http.MethodGet, link+"?answer=approve", nil)
		if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "sends 5 EUR") || !strings.Contains(body, "<dt>Environment</dt><dd>test</dd>") || !strings.Contains(body, "<form") || strings.Contains(body, "<script>") {
			t.Errorf("%d %s", w.Code, body)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
	}
	f.do(http.MethodHead, link, nil)
	for _, other := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions} {
		if w := f.do(other, link, yes); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", other, w.Code)
		}
	}
	// A link may not carry the answer itself.
	if w := f.do(http.MethodPost, link+"?answer=approve", nil); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("an answer in the URL: %d", w.Code)
	}
	if f.state(t) != toolroom.ApprovalPending {
		t.Errorf("it is %s", f.state(t))
	}
}

func TestTheButtonAnswersOnce(t *testing.T) {
	t.Parallel()
	f := open(t, toolroom.ApprovalTerms{})
	link := approval.AnswerPath + f.approvals.Link(f.asked, "ops")
	if w := f.do(http.MethodPost, link, yes); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "<form") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	a, err := f.approvals.Get(t.Context(), f.asked.ID)
	if err != nil || a.State != toolroom.ApprovalApproved || a.By != "hook:ops" || a.Scope != toolroom.ScopeOnce {
		t.Fatalf("it is %+v, %v", a, err)
	}
	if w := f.do(http.MethodPost, link, url.Values{"answer": {"decline"}}); w.Code != http.StatusConflict {
		t.Errorf("a second answer: %d", w.Code)
	}
	if f.state(t) != toolroom.ApprovalApproved {
		t.Errorf("it is %s now", f.state(t))
	}
}

func TestAttacksOnLinks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		terms toolroom.ApprovalTerms
		token func(*fixture) string
		form  url.Values
		want  int
	}{
		"made up":      {toolroom.ApprovalTerms{}, func(f *fixture) string { return f.asked.ID }, yes, 403},
		"without seal": {toolroom.ApprovalTerms{}, func(f *fixture) string { return strings.Split(f.approvals.Link(f.asked, "ops"), ".")[0] }, yes, 403},
		"of another server": {toolroom.ApprovalTerms{}, func(f *fixture) string {
			return approval.New(nil, approval.Options{}).Link(f.asked, "ops")
		}, yes, 403},
		"a hook that may not answer": {toolroom.ApprovalTerms{Approvers: []string{"hook:cfo"}}, func(f *fixture) string { return f.approvals.Link(f.asked, "ops") }, yes, 403},
		"more than may be approved": {
			toolroom.ApprovalTerms{Scopes: []toolroom.ApprovalScope{toolroom.ScopeOnce}},
			func(f *fixture) string { return f.approvals.Link(f.asked, "ops") },
			url.Values{"answer": {"approve"}, "scope": {"always"}},
			422,
		},
		"too late": {toolroom.ApprovalTerms{}, func(f *fixture) string {
			token := f.approvals.Link(f.asked, "ops")
			f.now = f.asked.Expires
			return token
		}, yes, 403},
		"a body without end": {toolroom.ApprovalTerms{}, func(f *fixture) string { return f.approvals.Link(f.asked, "ops") }, url.Values{"answer": {"approve"}, "comment": {strings.Repeat("x", 1<<20)}}, 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, tt.terms)
			w := f.do(http.MethodPost, approval.AnswerPath+tt.token(f), tt.form)
			if w.Code != tt.want {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if s := f.state(t); s != toolroom.ApprovalPending && s != toolroom.ApprovalExpired {
				t.Errorf("it is %s", s)
			}
		})
	}
}

func TestOneLinkIsOnePerson(t *testing.T) {
	t.Parallel()
	f := open(t, toolroom.ApprovalTerms{People: 2})
	ops := approval.AnswerPath + f.approvals.Link(f.asked, "ops")
	if w := f.do(http.MethodPost, ops, yes); w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	if w := f.do(http.MethodPost, ops, yes); w.Code != http.StatusConflict || f.state(t) != toolroom.ApprovalPending {
		t.Errorf("the same link again: %d, and it is %s", w.Code, f.state(t))
	}
	if w := f.do(http.MethodPost, approval.AnswerPath+f.approvals.Link(f.asked, "cfo"), yes); w.Code != http.StatusOK || f.state(t) != toolroom.ApprovalApproved {
		t.Errorf("another link: %d, and it is %s", w.Code, f.state(t))
	}
}

func TestAnAnswerThatCanBeReadInTwoWaysIsNone(t *testing.T) {
	t.Parallel()
	f := open(t, toolroom.ApprovalTerms{})
	link := approval.AnswerPath + f.approvals.Link(f.asked, "ops")
	for _, form := range []url.Values{
		{"answer": {"decline", "approve"}},
		{"answer": {"approve", "approve"}},
		{"answer": {"approve"}, "Answer": {"decline"}},
		{"answer": {"approve"}, "scope": {"once", "always"}},
	} {
		if w := f.do(http.MethodPost, link, form); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%v: %d", form, w.Code)
		}
	}
	if f.state(t) != toolroom.ApprovalPending {
		t.Errorf("it is %s", f.state(t))
	}
}

func TestAFormOfAnotherPageAnswersNothing(t *testing.T) {
	t.Parallel()
	f := open(t, toolroom.ApprovalTerms{})
	link := approval.AnswerPath + f.approvals.Link(f.asked, "ops")
	for _, site := range []string{"cross-site", "same-site", "none", "same-origin"} {
		r := httptest.NewRequest(http.MethodPost, link, strings.NewReader(yes.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set("Origin", "null") // what browsers send from this page
		f.handler.ServeHTTP(httptest.NewRecorder(), r)
		if answered := f.state(t) == toolroom.ApprovalApproved; answered != (site == "same-origin") {
			t.Errorf("%s: it is %s", site, f.state(t))
		}
	}
}

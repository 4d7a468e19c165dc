package approval

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

// A digest is over parts of any content: no two lists of parts run together.
func TestDigestTellsPartsApart(t *testing.T) {
	t.Parallel()
	write := toolroom.MustParseID("file:write")
	seen := map[string]string{}
	for name, got := range map[string]string{
		"none":                     Digest(write, []byte(`{}`), nil, toolroom.Identity{}),
		"more":                     Digest(write, []byte(`{}`), []byte("x"), toolroom.Identity{}),
		"other more":               Digest(write, []byte(`{}`), []byte("y"), toolroom.Identity{}),
		"zeros in a subject":       Digest(write, []byte(`{}`), nil, toolroom.Identity{Subject: "a" + strings.Repeat("\x00", 8) + "b"}),
		"an agent and a group":     Digest(write, []byte(`{}`), nil, toolroom.Identity{Subject: "a", Agent: "b", Groups: []string{""}}),
		"another environment":      Digest(write, []byte(`{}`), nil, toolroom.Identity{Environment: "b"}),
		"more in the arguments":    Digest(write, []byte(`{}x`), nil, toolroom.Identity{}),
		"more as subject":          Digest(write, []byte(`{}`), nil, toolroom.Identity{Subject: "x"}),
		"subject ab":               Digest(write, []byte(`{}`), nil, toolroom.Identity{Subject: "ab", Agent: "c"}),
		"subject a":                Digest(write, []byte(`{}`), nil, toolroom.Identity{Subject: "a", Agent: "bc"}),
		"two groups":               Digest(write, []byte(`{}`), nil, toolroom.Identity{Groups: []string{"a", "b"}}),
		"one group":                Digest(write, []byte(`{}`), nil, toolroom.Identity{Groups: []string{"ab"}}),
		"no scopes":                Digest(write, []byte(`{}`), nil, toolroom.Identity{Scopes: []string{}}),
		"a scope":                  Digest(write, []byte(`{}`), nil, toolroom.Identity{Scopes: []string{"a"}}),
		"groups that are scopes":   Digest(write, []byte(`{}`), nil, toolroom.Identity{Groups: []string{"a", "scopes"}}),
		"a set":                    Digest(write, []byte(`{}`), nil, toolroom.Identity{Set: "a"}),
		"another set":              Digest(write, []byte(`{}`), nil, toolroom.Identity{Set: "b"}),
		"a scope that is a set":    Digest(write, []byte(`{}`), nil, toolroom.Identity{Scopes: []string{"a", "set"}}),
		"an environment":           Digest(write, []byte(`{}`), nil, toolroom.Identity{Environment: "a"}),
		"a caller is not a digest": Caller(toolroom.Identity{}),
	} {
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[got] = name
	}
	if Digest(write, []byte(`{}`), []byte{}, toolroom.Identity{}) != Digest(write, []byte(`{}`), nil, toolroom.Identity{}) {
		t.Error("nothing more has two digests")
	}
	if Caller(toolroom.Identity{Scopes: []string{"b", "a"}}) != Caller(toolroom.Identity{Scopes: []string{"a", "b"}}) {
		t.Error("the order of scopes changes the caller")
	}
}

func TestAnAnswerIsRecordedAsAVote(t *testing.T) {
	t.Parallel()
	a := pending(agent)
	a.People = 2
	if err := Decide(a, toolroom.Answer{Approve: true, Who: approver, By: "carol", Scope: toolroom.ScopeCall, Comment: "fine"}, a.Created); err != nil {
		t.Fatal(err)
	}
	if err := Decide(a, toolroom.Answer{Approve: true, Who: operator, By: "dan", Scope: toolroom.ScopeAlways}, a.Created); err != nil {
		t.Fatal(err)
	}
	want := []toolroom.Vote{
		{Approve: true, Scope: toolroom.ScopeCall, By: "carol", Voter: approver.Key(), Comment: "fine", Time: a.Created},
		{Approve: true, Scope: toolroom.ScopeAlways, By: "dan", Voter: operator.Key(), Time: a.Created},
	}
	if diff := cmp.Diff(want, a.Votes); diff != "" {
		t.Error(diff)
	}
	if a.By != "carol and dan" || a.Scope != toolroom.ScopeCall {
		t.Errorf("by %q, for %s", a.By, a.Scope)
	}
	no := pending(agent)
	if err := Decide(no, toolroom.Answer{Who: approver, Scope: toolroom.ScopeAlways}, no.Created); err != nil {
		t.Fatal(err)
	}
	if v := no.Votes[0]; v.Approve || v.Scope != "" || no.Scope != "" {
		t.Errorf("a no has the scope %q", v.Scope)
	}
}

func TestAnEndedQuestionSaysHowItEnded(t *testing.T) {
	t.Parallel()
	end := func(state toolroom.ApprovalState) *toolroom.Approval {
		a := pending(agent)
		a.State = state
		return a
	}
	late := pending(agent)
	late.Created, late.Expires = late.Created.Add(-time.Hour), late.Created // over, though the state says pending
	for name, tt := range map[string]struct {
		a                   *toolroom.Approval
		decide, use, settle toolroom.Code
		says                string
	}{
		"cancelled": {end(toolroom.ApprovalCancelled), toolroom.CodeConflict, toolroom.CodeCancelled, toolroom.CodeCancelled, "was cancelled together with its call"},
		"expired":   {end(toolroom.ApprovalExpired), toolroom.CodeApprovalExpired, toolroom.CodeApprovalExpired, toolroom.CodeApprovalExpired, "expired at"},
		"late":      {late, toolroom.CodeApprovalExpired, toolroom.CodeApprovalExpired, toolroom.CodeApprovalExpired, "expired at"},
		"declined":  {end(toolroom.ApprovalDeclined), toolroom.CodeConflict, toolroom.CodeApprovalDeclined, toolroom.CodeApprovalDeclined, "declined by the local operator"},
	} {
		now := pending(agent).Created
		for what, want := range map[string]toolroom.Code{"Use": tt.use, "Decide": tt.decide, "Err": tt.settle} {
			a := *tt.a
			var err error
			switch what {
			case "Use":
				err = Use(&a, now)
			case "Decide":
				err = Decide(&a, toolroom.Answer{Approve: true}, now)
			default:
				ExpireIfDue(&a, now)
				err = Err(&a)
			}
			e := wantError(t, err, want)
			if !strings.Contains(e.Message, tt.says) && what != "Decide" || e.Hint == "" || e.Details["state"] != a.State {
				t.Errorf("%s, %s: %v, %v", name, what, e, e.Details)
			}
		}
		a := *tt.a
		Cancel(&a, now)
		if a.State == toolroom.ApprovalCancelled && name != "cancelled" {
			t.Errorf("%s: it was cancelled afterwards", name)
		}
	}
	for _, state := range []toolroom.ApprovalState{toolroom.ApprovalPending, toolroom.ApprovalApproved} {
		if err := Err(end(state)); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
	// A decline reaches one repeat of the call, and each call that names it.
	a := end(toolroom.ApprovalDeclined)
	for i := range 2 {
		now := a.Created.Add(time.Duration(i) * time.Second)
		wantError(t, Use(a, now), toolroom.CodeApprovalDeclined)
		if !a.Used.Equal(a.Created) {
			t.Errorf("used at %v", a.Used)
		}
	}
}

func TestAGrantOfAnUnknownScopeCoversNothing(t *testing.T) {
	t.Parallel()
	a := pending(agent)
	for _, scope := range []toolroom.ApprovalScope{"", toolroom.ScopeOnce, "forever"} {
		if Covers(&toolroom.Grant{Tool: a.Tool, Identity: a.Identity, Scope: scope}, a) {
			t.Errorf("%q covers a call", scope)
		}
	}
	for state, scope := range map[toolroom.ApprovalState]toolroom.ApprovalScope{
		toolroom.ApprovalPending: toolroom.ScopeAlways, toolroom.ApprovalDeclined: toolroom.ScopeAlways, toolroom.ApprovalApproved: "",
	} {
		a := *a
		a.State, a.Scope = state, scope
		if g := grantFor(&a, "apg_1", time.Hour); g != nil {
			t.Errorf("%s for %q became %+v", state, scope, g)
		}
	}
}

func TestAGrantHoldsInTheEnvironmentOfItsQuestionAlone(t *testing.T) {
	t.Parallel()
	for _, scope := range []toolroom.ApprovalScope{toolroom.ScopeCall, toolroom.ScopeSession, toolroom.ScopeAlways} {
		for _, given := range []string{"", "test"} {
			asked := pending(agent)
			asked.Environment, asked.Digest = given, "d"
			if err := Decide(asked, toolroom.Answer{Approve: true, Scope: scope, Who: operator}, asked.Created); err != nil {
				t.Fatal(err)
			}
			g := grantFor(asked, "apg_1", time.Hour)
			for _, where := range []string{"", "test", "stage"} {
				again := pending(agent)
				again.Environment, again.Digest = where, "d"
				if got := Covers(g, again); got != (where == given) {
					t.Errorf("%s given in %q covers a call in %q: %v", scope, given, where, got)
				}
			}
		}
	}
	for _, tt := range []struct{ named, bound, want string }{
		{"", "", ""}, {"prod", "", ""}, {"test", "", "test"}, {"", "test", "test"}, {"", "prod", ""}, {"prod", "prod", ""},
	} {
		if got := Environment(tt.named, toolroom.Identity{Environment: tt.bound}); got != tt.want {
			t.Errorf("a call that names %q of a caller bound to %q is in %q", tt.named, tt.bound, got)
		}
	}
}

func TestABoundApproverAnswersWhatItIsBoundTo(t *testing.T) {
	t.Parallel()
	group := []string{"approvers"}
	for name, tt := range map[string]struct {
		who         toolroom.Identity
		environment string
		set         string
		allowed     bool
	}{
		"unbound":                     {toolroom.Identity{Subject: "c", Groups: group}, "test", "reading", true},
		"bound, its environment":      {toolroom.Identity{Subject: "c", Groups: group, Environment: "test"}, "test", "", true},
		"bound, prod":                 {toolroom.Identity{Subject: "c", Groups: group, Environment: "test"}, "", "", false},
		"bound to prod, prod":         {toolroom.Identity{Subject: "c", Groups: group, Environment: "prod"}, "", "", true},
		"bound to prod, test":         {toolroom.Identity{Subject: "c", Groups: group, Environment: "prod"}, "test", "", false},
		"bound to a set, its caller":  {toolroom.Identity{Subject: "c", Groups: group, Set: "reading"}, "", "reading", true},
		"bound to a set, others":      {toolroom.Identity{Subject: "c", Groups: group, Set: "reading"}, "", "", false},
		"the local operator, any set": {operator, "test", "reading", true},
	} {
		for _, yes := range []bool{true, false} {
			a := pending(agent)
			a.Environment, a.Identity.Set = tt.environment, tt.set
			err := Decide(a, toolroom.Answer{Approve: yes, Who: tt.who}, a.Created)
			if (err == nil) != tt.allowed || err != nil && toolroom.CodeOf(err) != toolroom.CodeDenied {
				t.Errorf("%s, approve %v: %v", name, yes, err)
			}
		}
	}
}

func TestScopesThatAnApprovalMayHave(t *testing.T) {
	t.Parallel()
	once, call, session, always := toolroom.ScopeOnce, toolroom.ScopeCall, toolroom.ScopeSession, toolroom.ScopeAlways
	for name, tt := range map[string]struct {
		session string
		scopes  []toolroom.ApprovalScope
		want    []toolroom.ApprovalScope
	}{
		"any":                     {"s", nil, []toolroom.ApprovalScope{once, call, session, always}},
		"without a session":       {"", nil, []toolroom.ApprovalScope{once, call, always}},
		"limited":                 {"s", []toolroom.ApprovalScope{session, once}, []toolroom.ApprovalScope{once, session}},
		"limited, and no session": {"", []toolroom.ApprovalScope{session, once}, []toolroom.ApprovalScope{once}},
	} {
		a := pending(agent)
		a.Session, a.Scopes = tt.session, tt.scopes
		if got := PermittedScopes(a); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
		e := wantError(t, Decide(a, toolroom.Answer{Approve: true, Who: approver, Scope: "forever"}, a.Created), toolroom.CodeInvalidArguments)
		var words []string
		for _, s := range tt.want {
			words = append(words, string(s))
		}
		if e.Hint != "use one of: "+strings.Join(words, ", ") {
			t.Errorf("%s: hint %q", name, e.Hint)
		}
	}
	a := pending(agent)
	e := wantError(t, Decide(a, toolroom.Answer{Approve: true, Who: anyone}, a.Created), toolroom.CodeDenied)
	if e.Hint != "one of these may answer: operator, group:approvers, hook:*" {
		t.Errorf("hint %q", e.Hint)
	}
	a.Approvers = []string{"group:finance"}
	e = wantError(t, Decide(a, toolroom.Answer{Approve: true, Who: anyone}, a.Created), toolroom.CodeDenied)
	if e.Hint != "one of these may answer: group:finance" {
		t.Errorf("hint %q", e.Hint)
	}
	if e := toolroom.AsError(TooMany()); e.Code != toolroom.CodeRateLimited || !e.Retryable || e.Hint == "" {
		t.Errorf("%+v", e)
	}
}

// brokenStore fails.
type brokenStore struct {
	*memoryStore
	err      error
	swept    time.Time
	notified []string
}

func (s *brokenStore) Approval(context.Context, string, time.Time) (*toolroom.Approval, error) {
	return nil, s.err
}

func (s *brokenStore) Approvals(context.Context, toolroom.ApprovalState, time.Time) ([]*toolroom.Approval, error) {
	return nil, s.err
}

func (s *brokenStore) Grants(context.Context, string, string, time.Time) ([]*toolroom.Grant, error) {
	return nil, s.err
}
func (s *brokenStore) RemoveGrant(context.Context, string) error               { return s.err }
func (s *brokenStore) ExpireApprovals(context.Context, time.Time) error        { return s.err }
func (s *brokenStore) CancelApproval(context.Context, string, time.Time) error { return s.err }
func (s *brokenStore) MarkApprovalNotified(_ context.Context, id, hook string) error {
	s.notified = append(s.notified, id+" "+hook)
	return s.err
}

func (s *brokenStore) SweepApprovals(_ context.Context, before time.Time) (int64, error) {
	s.swept = before
	return 3, s.err
}

func TestErrorsOfTheStoreAreTold(t *testing.T) {
	t.Parallel()
	broken := errors.New("the store is broken")
	store := &brokenStore{memoryStore: &memoryStore{}, err: broken}
	s := New(store, Options{})
	link := s.Link(pending(agent), "ops")
	_, get := s.Get(t.Context(), "a")
	_, list := s.List(t.Context(), "")
	_, grants := s.Grants(t.Context())
	_, granted := s.FindGrant(t.Context(), *pending(agent))
	_, sweep := s.Sweep(t.Context(), time.Unix(5, 0))
	for name, err := range map[string]error{
		"Get": get, "List": list, "Grants": grants, "Granted": granted, "Sweep": sweep, "RemoveGrant": s.RemoveGrant(t.Context(), "g"),
		"Expire": s.Expire(t.Context()), "Abandon": s.Abandon(t.Context(), "a"), "Notified": s.RecordNotified(t.Context(), "a", "ops"),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !store.swept.Equal(time.Unix(5, 0)) || !slices.Equal(store.notified, []string{"a ops"}) {
		t.Errorf("swept before %v, notified %v", store.swept, store.notified)
	}
	s.opts.Now = func() time.Time { return pending(agent).Created }
	if _, _, err := s.OpenLink(t.Context(), link); !errors.Is(err, broken) {
		t.Errorf("OpenLink: %v", err)
	}
}

func TestGrantsAreFoundRevokedAndBoundByTheTermsOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := toolroom.ApprovalTerms{TTL: time.Minute}
		service := New(&memoryStore{}, Options{Terms: func(string) toolroom.ApprovalTerms { return terms }})
		ask := toolroom.Approval{Digest: "d", Tool: "file:write", Session: "s"}
		a, err := service.Request(t.Context(), ask)
		if err != nil || a.TTL != time.Minute || !a.Expires.Equal(time.Now().Add(time.Minute)) || service.Terms("file:write").TTL != time.Minute {
			t.Fatalf("%+v, %v", a, err)
		}
		answer(t, service, a.ID, toolroom.Answer{Approve: true, Scope: toolroom.ScopeSession})
		granted := func() *toolroom.Grant {
			t.Helper()
			g, err := service.FindGrant(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		if g := granted(); g == nil || g.Approval != a.ID || g.Session != "s" || !g.Expires.Equal(time.Now().Add(12*time.Hour)) {
			t.Errorf("%+v", g)
		}
		terms.Scopes = []toolroom.ApprovalScope{toolroom.ScopeOnce}
		if g := granted(); g != nil {
			t.Errorf("the terms are stricter now, and %+v holds", g)
		}
		terms.Scopes = nil
		time.Sleep(12 * time.Hour)
		if g := granted(); g != nil {
			t.Errorf("its time is over, and %+v holds", g)
		}
		service.SetTTL(time.Hour, 2*time.Hour)
		terms.TTL = 0
		a, err = service.Request(t.Context(), ask)
		if err != nil || !a.Expires.Equal(time.Now().Add(time.Hour)) {
			t.Fatalf("%+v, %v", a, err)
		}
		answer(t, service, a.ID, toolroom.Answer{Approve: true, Scope: toolroom.ScopeSession})
		g := granted()
		if g == nil || !g.Expires.Equal(time.Now().Add(2*time.Hour)) {
			t.Fatalf("%+v", g)
		}
		if all, err := service.Grants(t.Context()); err != nil || len(all) != 1 || all[0].ID != g.ID {
			t.Errorf("%v, %v", all, err)
		}
		if err := service.RemoveGrant(t.Context(), g.ID); err != nil || granted() != nil {
			t.Errorf("after it was revoked: %v", err)
		}
		short := New(&memoryStore{}, Options{SessionTTL: time.Minute})
		if _, session := short.ttls(); session != time.Minute {
			t.Errorf("a session lasts %v", session)
		}
	})
}

func TestAQuestionIsAbandonedWhenNobodyWaitsAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		a := request(t, service, "digest")
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				_, _ = service.Wait(ctx, a.ID)
				close(ended)
			}()
			synctest.Wait()
			cancel()
			<-ended
		}
		if err := service.Abandon(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if got, err := service.Get(t.Context(), a.ID); err != nil || got.State != toolroom.ApprovalCancelled {
			t.Errorf("%+v, %v", got, err)
		}
		if len(service.waiting) != 0 {
			t.Errorf("%d are waited for", len(service.waiting))
		}
	})
}

// expiring counts how often it is told to expire.
type expiring struct {
	*memoryStore
	times int
}

func (s *expiring) ExpireApprovals(context.Context, time.Time) error {
	s.times++
	return nil
}

func TestAnExpiryIsMadeFinalOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	store := &expiring{memoryStore: &memoryStore{}}
	s := New(store, Options{Now: func() time.Time { return now }})
	a := request(t, s, "digest")
	now = now.Add(time.Hour)
	for range 3 {
		_, _ = s.Get(t.Context(), a.ID)
	}
	if store.times != 1 {
		t.Errorf("expired %d times", store.times)
	}
	later := request(t, s, "later")
	now = now.Add(time.Hour)
	for range 3 {
		_, _ = s.Get(t.Context(), later.ID)
	}
	if store.times != 2 {
		t.Errorf("expired %d times", store.times)
	}
}

// The key has other uses: what is signed there is no link.
func TestWhatTheKeySignedElsewhereIsNoLink(t *testing.T) {
	t.Parallel()
	key := NewKey()
	s := New(&memoryStore{}, Options{Key: key})
	body, err := json.Marshal(linkClaims{Approval: "apr_1", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(prefix, body string) string {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(prefix + body))
		return encode([]byte(body)) + "." + encode(h.Sum(nil))
	}
	_, _, err = s.OpenLink(t.Context(), sign("", string(body)))
	wantError(t, err, toolroom.CodeDenied)
	_, _, err = s.OpenLink(t.Context(), sign("toolroom link 1\n", "no JSON"))
	wantError(t, err, toolroom.CodeDenied)
	_, _, err = s.OpenLink(t.Context(), sign("toolroom link 1\n", string(body)))
	wantError(t, err, toolroom.CodeNotFound)
	// A link does not tell the zone of the server.
	zone := pending(agent)
	zone.Expires = time.Unix(5, 0).In(time.FixedZone("here", 3600))
	_, _, err = s.OpenLink(t.Context(), s.Link(zone, ""))
	if e := wantError(t, err, toolroom.CodeApprovalExpired); !strings.Contains(e.Message, "1970-01-01T00:00:05Z") {
		t.Error(e)
	}
}

func TestWhatAWriteShowsAtItsLimits(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, size := range map[string]int{"largest": maxDiffInput, "larger": maxDiffInput + 1, "small": 1} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	show := func(path string, content any) (string, string, error) {
		t.Helper()
		arguments, err := json.Marshal(map[string]any{"path": path, "content": content})
		if err != nil {
			t.Fatal(err)
		}
		return FileWrite{Root: root, Path: "path", Content: "content"}.Show(arguments)
	}
	if effect, change, err := show("largest", "y"); err != nil || change == "" || !strings.Contains(effect, "1048576 bytes become 1") {
		t.Errorf("%q, %d bytes, %v", effect, len(change), err)
	}
	if effect, _, err := show("larger", "y"); err == nil || effect != "replaces the file larger" {
		t.Errorf("%q, %v", effect, err)
	}
	if _, change, _ := show("small", strings.Repeat("y", maxDiffInput)); change == "" {
		t.Error("the largest content has no diff")
	}
	if effect, change, err := show("small", strings.Repeat("y", maxDiffInput+1)); effect == "" || change != "" || err != nil {
		t.Errorf("larger content: %q, %d bytes, %v", effect, len(change), err)
	}
	_, change, err := show("new", "hello\n")
	if want := "--- new as it is\n+++ new after the call\n@@ -0,0 +1,1 @@\n+hello\n"; change != want || err != nil {
		t.Errorf("%q, %v", change, err)
	}
	// A change of exactly the limit is whole.
	head := len(change) - len("hello\n")
	_, change, _ = show("new", strings.Repeat("h", maxDiff-head-1)+"\n")
	if len(change) != maxDiff || strings.Contains(change, "not shown") {
		t.Errorf("%d bytes", len(change))
	}
	_, change, _ = show("new", strings.Repeat("h", maxDiff-head+9)+"\n")
	if !strings.HasSuffix(change, "\n(10 more bytes are not shown)\n") {
		t.Errorf("%q", change[maxDiff-10:])
	}
	for _, content := range []any{1, nil} {
		if effect, change, err := show("small", content); content == 1 && effect+change != "" || err != nil {
			t.Errorf("%v: %q, %q, %v", content, effect, change, err)
		}
	}
	if _, _, err := (FileWrite{Root: root, Path: "path", Content: "content"}).Show(json.RawMessage("[]")); err == nil {
		t.Error("arguments that are no object")
	}
	if _, _, err := (FileWrite{Root: filepath.Join(root, "none", "x"), Path: "path", Content: "content"}).Show(json.RawMessage(`{"path":"small","content":"x"}`)); err != nil {
		t.Errorf("a root that is not there has no files: %v", err)
	}
	if _, _, err := (FileWrite{Root: filepath.Join(root, "small"), Path: "path", Content: "content"}).Show(json.RawMessage(`{"path":"small","content":"x"}`)); err == nil {
		t.Error("a root that is a file")
	}
}

func TestOneWhoHasApprovedMayStillDecline(t *testing.T) {
	t.Parallel()
	a := pending(agent)
	a.People = 2
	for _, yes := range []bool{true, false} {
		if err := Decide(a, toolroom.Answer{Approve: yes, Who: operator}, a.Created); err != nil {
			t.Fatal(err)
		}
	}
	if a.State != toolroom.ApprovalDeclined || len(a.Votes) != 2 {
		t.Errorf("%s with %d votes", a.State, len(a.Votes))
	}
}

func TestAnAnswerKeepsToTheScopesOfTheTerms(t *testing.T) {
	t.Parallel()
	for scope, good := range map[toolroom.ApprovalScope]bool{toolroom.ScopeOnce: true, toolroom.ScopeCall: true, toolroom.ScopeAlways: false} {
		a := pending(agent)
		a.Scopes = []toolroom.ApprovalScope{toolroom.ScopeOnce, toolroom.ScopeCall}
		if err := Decide(a, toolroom.Answer{Approve: true, Scope: scope, Who: operator}, a.Created); (err == nil) != good {
			t.Errorf("%s: %v", scope, err)
		}
	}
}

func TestAGrantForASessionNeedsOne(t *testing.T) {
	t.Parallel()
	a := pending(agent)
	a.Session = ""
	if Covers(&toolroom.Grant{Tool: a.Tool, Identity: a.Identity, Scope: toolroom.ScopeSession}, a) {
		t.Error("a grant of no session covers a call of none")
	}
}

func TestANotifierForgetsWhatIsNoLongerPending(t *testing.T) {
	t.Parallel()
	n := NewNotifier(NotifierOptions{})
	if n.o.Poll != time.Second || n.o.First != time.Second || n.o.Last != time.Minute || n.o.Log == nil {
		t.Errorf("the defaults are %+v", n.o)
	}
	if !n.claim("a:hook") || !n.claim("b:hook") || n.claim("a:hook") {
		t.Error("a delivery is claimed twice, or never")
	}
	n.forget(map[string]bool{"a:hook": true})
	if n.claim("a:hook") || !n.claim("b:hook") {
		t.Error("only what is not pending is forgotten")
	}
}

package approval

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRequestAsksOnceAboutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		first := request(t, service, "digest")
		want := &toolroom.Approval{
			ID: first.ID, Digest: "digest", Tool: "file:write", Arguments: json.RawMessage(`{}`),
			State: toolroom.ApprovalPending, Created: time.Now(), Expires: time.Now().Add(15 * time.Minute),
		}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("approval (-want +got):\n%s", diff)
		}
		if !strings.HasPrefix(first.ID, "apr_") {
			t.Errorf("id %q does not begin with apr_", first.ID)
		}

		if again := request(t, service, "digest"); again.ID != first.ID {
			t.Errorf("the same call asked again: %s and %s", first.ID, again.ID)
		}
		if other := request(t, service, "other"); other.ID == first.ID {
			t.Error("another call got the same question")
		}

		answer(t, service, first.ID, toolroom.Answer{Approve: true, By: "ann"})
		if again := request(t, service, "digest"); again.ID != first.ID || again.State != toolroom.ApprovalApproved {
			t.Errorf("a repeat of the approved call got %s, %s", again.ID, again.State)
		}
		if err := service.Use(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		if again := request(t, service, "digest"); again.ID == first.ID {
			t.Error("a used approval was handed out again")
		}
	})
}

func TestWaitReturnsAtOnceWhenThisProcessTakesTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{Poll: time.Hour})
		a := request(t, service, "digest")
		go func() {
			time.Sleep(time.Minute)
			answer(t, service, a.ID, toolroom.Answer{Approve: true, By: "ann", Comment: "go on"})
		}()
		start := time.Now()
		got, err := service.Wait(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.State != toolroom.ApprovalApproved || got.By != "ann" || got.Comment != "go on" {
			t.Errorf("approval is %s by %q: %q", got.State, got.By, got.Comment)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("woke after %v, the answer came after 1m", took)
		}
	})
}

func TestWaitFindsTheAnswerThatAnotherProcessTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		here, there := New(store, Options{}), New(store, Options{})
		a := request(t, here, "digest")
		start := time.Now()
		go func() {
			time.Sleep(time.Minute + time.Millisecond)
			answer(t, there, a.ID, toolroom.Answer{Approve: true})
		}()
		if _, err := here.Wait(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(start) - time.Minute; late > 200*time.Millisecond {
			t.Errorf("woke %v after the answer, want at most one poll of 200ms", late)
		}
	})
}

func TestTheStoreIsReadOnlyWhileACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		service := New(store, Options{})
		a := request(t, service, "digest")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := service.Wait(ctx, a.ID); toolroom.CodeOf(err) != toolroom.CodeTimeout {
			t.Errorf("Wait = %v, want the timeout of its context", err)
		}
		reads := store.readCount()
		time.Sleep(time.Minute)
		if more := store.readCount() - reads; more != 0 {
			t.Errorf("%d reads while nobody waited", more)
		}
		if got, err := service.Get(t.Context(), a.ID); err != nil || got.State != toolroom.ApprovalPending {
			t.Errorf("the question is %v, %v after the wait was given up, want pending", got, err)
		}
	})
}

func TestWaitReportsADeclinedCallWithWhoAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		a := request(t, service, "digest")
		answer(t, service, a.ID, toolroom.Answer{By: "ann", Comment: "not on a Friday"})
		_, err := service.Wait(t.Context(), a.ID)
		e := wantError(t, err, toolroom.CodeApprovalDeclined)
		if want := "approval " + a.ID + " of file:write was declined by ann: not on a Friday"; e.Message != want {
			t.Errorf("message %q, want %q", e.Message, want)
		}
		if e.Phase != toolroom.PhaseApproval || e.Tool != "file:write" || e.Hint == "" {
			t.Errorf("phase %q, tool %q, hint %q", e.Phase, e.Tool, e.Hint)
		}
	})
}

func TestWaitEndsWhenTheQuestionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{TTL: time.Minute + 50*time.Millisecond})
		a := request(t, service, "digest")
		start := time.Now()
		_, err := service.Wait(t.Context(), a.ID)
		wantError(t, err, toolroom.CodeApprovalExpired)
		if took := time.Since(start); took != time.Minute+50*time.Millisecond {
			t.Errorf("Wait took %v, the question expired after 1m0.05s", took)
		}
	})
}

func TestWaitRidesOutAStoreThatIsBusyForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		service := New(store, Options{})
		a := request(t, service, "digest")
		busy := toolroom.Errorf(toolroom.CodeInternal, "the database is locked")
		busy.Retryable = true
		store.fail(busy)
		go func() {
			time.Sleep(time.Minute)
			store.fail(nil)
			answer(t, service, a.ID, toolroom.Answer{Approve: true})
		}()
		if _, err := service.Wait(t.Context(), a.ID); err != nil {
			t.Errorf("Wait = %v", err)
		}

		broken := toolroom.Errorf(toolroom.CodeInternal, "the database is damaged")
		store.fail(broken)
		if _, err := service.Wait(t.Context(), a.ID); !errors.Is(err, broken) {
			t.Errorf("Wait = %v, want %v", err, broken)
		}
	})
}

func TestWaitForAnUnknownApprovalIsNotFound(t *testing.T) {
	_, err := New(&memoryStore{}, Options{}).Wait(t.Context(), "apr_none")
	wantError(t, err, toolroom.CodeNotFound)
}

func TestAnAnswerStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		a := request(t, service, "digest")
		answer(t, service, a.ID, toolroom.Answer{By: "ann"})
		_, err := service.Answer(t.Context(), a.ID, toolroom.Answer{Approve: true, By: "bob"})
		e := wantError(t, err, toolroom.CodeConflict)
		if !strings.Contains(e.Message, "was already declined by ann") {
			t.Errorf("message %q does not say who answered before", e.Message)
		}
	})
}

func TestAnExpiredQuestionCannotBeAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{TTL: time.Minute})
		a := request(t, service, "digest")
		time.Sleep(time.Minute)
		_, err := service.Answer(t.Context(), a.ID, toolroom.Answer{Approve: true})
		wantError(t, err, toolroom.CodeApprovalExpired)
		if again := request(t, service, "digest"); again.ID == a.ID {
			t.Error("the expired question was handed out again")
		}
	})
}

func TestAnApprovedCallMustStartWithinTheSameTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{TTL: time.Minute})
		a := request(t, service, "digest")
		time.Sleep(59 * time.Second)
		answer(t, service, a.ID, toolroom.Answer{Approve: true})
		time.Sleep(59 * time.Second)
		if again := request(t, service, "digest"); again.ID != a.ID {
			t.Error("an approval that holds was not handed out")
		}
		time.Sleep(time.Second)
		wantError(t, service.Use(t.Context(), a.ID), toolroom.CodeApprovalExpired)
		if again := request(t, service, "digest"); again.ID == a.ID {
			t.Error("an approval that is over was handed out")
		}
	})
}

func TestUseTakesOnlyAnApprovedCallAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		a := request(t, service, "approved")
		wantError(t, service.Use(t.Context(), a.ID), toolroom.CodeApprovalRequired)
		answer(t, service, a.ID, toolroom.Answer{Approve: true})
		if err := service.Use(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		wantError(t, service.Use(t.Context(), a.ID), toolroom.CodeConflict)

		declined := request(t, service, "declined")
		answer(t, service, declined.ID, toolroom.Answer{})
		wantError(t, service.Use(t.Context(), declined.ID), toolroom.CodeApprovalDeclined)
	})
}

func TestListReturnsTheApprovalsOfAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := New(&memoryStore{}, Options{})
		a, b := request(t, service, "a"), request(t, service, "b")
		answer(t, service, a.ID, toolroom.Answer{Approve: true})
		for state, want := range map[toolroom.ApprovalState][]string{"": {a.ID, b.ID}, toolroom.ApprovalApproved: {a.ID}, toolroom.ApprovalPending: {b.ID}, toolroom.ApprovalDeclined: nil} {
			list, err := service.List(t.Context(), state)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, a := range list {
				ids = append(ids, a.ID)
			}
			if diff := cmp.Diff(want, ids); diff != "" {
				t.Errorf("state %q (-want +got):\n%s", state, diff)
			}
		}
	})
}

func TestDigestTellsCallsApart(t *testing.T) {
	t.Parallel()
	ann := toolroom.Identity{Subject: "ann", Groups: []string{"dev", "ops"}}
	write := toolroom.MustParseID("file:write")
	base := Digest(write, []byte(`{"a":1}`), nil, ann)

	regrouped := ann
	regrouped.Groups = []string{"ops", "dev"}
	if got := Digest(write, []byte(`{"a":1}`), nil, regrouped); got != base {
		t.Error("the order of groups changes the digest")
	}
	if len(base) != 64 {
		t.Errorf("digest %q is not a SHA-256 in hex", base)
	}

	for name, got := range map[string]string{
		"tool":      Digest(toolroom.MustParseID("file:read"), []byte(`{"a":1}`), nil, ann),
		"version":   Digest(toolroom.MustParseID("file:write@2"), []byte(`{"a":1}`), nil, ann),
		"arguments": Digest(write, []byte(`{"a":2}`), nil, ann),
		"more":      Digest(write, []byte(`{"a":1}`), []byte(`{"b":1}`), ann),
		"subject":   Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "bob", Groups: ann.Groups}),
		"agent":     Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "ann", Agent: "x", Groups: ann.Groups}),
		"provider":  Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "ann", Provider: "x", Groups: ann.Groups}),
		"skill":     Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "ann", Skill: "x", Groups: ann.Groups}),
		"scopes":    Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "ann", Groups: ann.Groups, Scopes: []string{"read"}}),
		"no scope":  Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "ann", Groups: ann.Groups, Scopes: []string{}}),
		"groups":    Digest(write, []byte(`{"a":1}`), nil, toolroom.Identity{Subject: "ann", Groups: []string{"dev"}}),
	} {
		if got == base {
			t.Errorf("another %s gives the same digest", name)
		}
	}
}

func request(t *testing.T, d *Service, digest string) *toolroom.Approval {
	t.Helper()
	a, err := d.Request(t.Context(), toolroom.Approval{Digest: digest, Tool: "file:write", Arguments: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func answer(t *testing.T, d *Service, id string, a toolroom.Answer) {
	t.Helper()
	if _, err := d.Answer(t.Context(), id, a); err != nil {
		t.Error(err)
	}
}

func wantError(t *testing.T, err error, code toolroom.Code) *toolroom.Error {
	t.Helper()
	if toolroom.CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %q", err, toolroom.CodeOf(err), code)
	}
	return toolroom.AsError(err)
}

// memoryStore is the store in its simplest form.
type memoryStore struct {
	mu     sync.Mutex
	all    []*toolroom.Approval
	grants []*toolroom.Grant
	reads  int
	err    error

	expiredUntil time.Time
}

func (s *memoryStore) CreateApproval(_ context.Context, a *toolroom.Approval) (*toolroom.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.all {
		if have.Digest == a.Digest && IsOpen(have, a.Created) {
			return copyOf(have), nil
		}
	}
	s.all = append(s.all, copyOf(a))
	return copyOf(a), nil
}

func (s *memoryStore) Approval(_ context.Context, id string, now time.Time) (*toolroom.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	a, err := s.find(id)
	if err != nil {
		return nil, err
	}
	ExpireIfDue(a, now)
	return copyOf(a), nil
}

func (s *memoryStore) Approvals(_ context.Context, state toolroom.ApprovalState, now time.Time) ([]*toolroom.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*toolroom.Approval
	for _, a := range s.all {
		ExpireIfDue(a, now)
		if state == "" || a.State == state {
			list = append(list, copyOf(a))
		}
	}
	return list, nil
}

func (s *memoryStore) AnswerApproval(_ context.Context, id string, answer toolroom.Answer, now time.Time, grant func(*toolroom.Approval) *toolroom.Grant) (*toolroom.Approval, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(id)
	if err != nil {
		return nil, err
	}
	if err := Decide(a, answer, now); err != nil {
		return nil, err
	}
	if g := grant(a); g != nil {
		s.grants = append(s.grants, g)
	}
	return copyOf(a), nil
}

func (s *memoryStore) CancelApproval(_ context.Context, id string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(id)
	if err != nil {
		return err
	}
	Cancel(a, now)
	return nil
}

func (s *memoryStore) MarkApprovalNotified(context.Context, string, string) error { return nil }

func (s *memoryStore) ExpireApprovals(_ context.Context, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiredUntil = now
	return nil
}

func (s *memoryStore) SweepApprovals(context.Context, time.Time) (int64, error) { return 0, nil }

func (s *memoryStore) Grants(_ context.Context, tool, caller string, now time.Time) ([]*toolroom.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.grants), func(g *toolroom.Grant) bool {
		return tool != "" && g.Tool != tool || caller != "" && Caller(g.Identity) != caller || !g.Expires.IsZero() && !now.Before(g.Expires)
	}), nil
}

func (s *memoryStore) RemoveGrant(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants = slices.DeleteFunc(s.grants, func(g *toolroom.Grant) bool { return g.ID == id })
	return nil
}

func (s *memoryStore) UseApproval(_ context.Context, id string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.find(id)
	if err != nil {
		return err
	}
	return Use(a, now)
}

func (s *memoryStore) find(id string) (*toolroom.Approval, error) {
	for _, a := range s.all {
		if a.ID == id {
			return a, nil
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "approval %s does not exist", id)
}

func (s *memoryStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *memoryStore) readCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

func copyOf(a *toolroom.Approval) *toolroom.Approval {
	c := *a
	return &c
}

func TestASeenExpiryIsMadeFinal(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(*Service, string){
		"get":    func(s *Service, id string) { _, _ = s.Get(t.Context(), id) },
		"list":   func(s *Service, _ string) { _, _ = s.List(t.Context(), "") },
		"answer": func(s *Service, id string) { _, _ = s.Answer(t.Context(), id, toolroom.Answer{Approve: true}) },
		"wait":   func(s *Service, id string) { _, _ = s.Wait(t.Context(), id) },
	} {
		now := time.Now()
		store := &memoryStore{}
		s := New(store, Options{Now: func() time.Time { return now }})
		a, err := s.Request(t.Context(), toolroom.Approval{Tool: "a:b"})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = s.Get(t.Context(), a.ID)
		if !store.expiredUntil.IsZero() {
			t.Errorf("%s: an open question was expired", name)
		}
		now = now.Add(time.Hour)
		look(s, a.ID)
		if !store.expiredUntil.Equal(now) {
			t.Errorf("%s: the expiry was not made final", name)
		}
	}
}

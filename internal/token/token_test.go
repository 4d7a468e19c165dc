package token

import (
	"context"
	"crypto/sha256"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func TestCreateGivesTheSecretOutOnceAndKeepsOnlyItsHash(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	plaintext, made, err := Create(t.Context(), store, Options{Name: "ann's laptop", Subject: "ann", Groups: []string{"dev"}, Agent: "coder", Now: now, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^tr_[a-z2-7]{12}_[a-z2-7]{52}$`).MatchString(plaintext) {
		t.Errorf("plaintext %q has not the form tr_<id>_<secret>", plaintext)
	}
	sum := sha256.Sum256([]byte(plaintext))
	want := Token{
		ID: strings.Split(plaintext, "_")[1], Name: "ann's laptop", Hash: sum[:],
		Subject: "ann", Groups: []string{"dev"}, Agent: "coder", Created: now, Expires: now.Add(time.Hour),
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	stored, err := store.Token(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *stored); diff != "" {
		t.Errorf("stored token (-want +got):\n%s", diff)
	}
}

func TestCreateGivesATokenWithoutEndUnlessTold(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	plaintext, _, err := Create(t.Context(), store, Options{Subject: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verifierAt(store, time.Now().AddDate(100, 0, 0)).Verify(t.Context(), plaintext); err != nil {
		t.Errorf("after a hundred years: %v", err)
	}
}

func TestCreateRefusesTokensThatStandForNobody(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"no subject":         {},
		"the local operator": {Subject: "local"},
		"a negative time":    {Subject: "ann", TTL: -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &memoryStore{}
			_, _, err := Create(t.Context(), store, opts)
			if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || toolroom.AsError(err).Hint == "" {
				t.Errorf("Create = %v, want invalid_arguments with a hint", err)
			}
			if len(store.tokens) != 0 {
				t.Error("the token was stored")
			}
		})
	}
}

func TestVerifyTellsWhomAPlaintextStandsFor(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	plaintext := create(t, store, Options{Subject: "ann", Groups: []string{"dev"}, Agent: "coder", Provider: "ollama", Skill: "review"})
	got, err := verifierAt(store, time.Now()).Verify(t.Context(), plaintext)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := idOf(plaintext)
	want := toolroom.Identity{Subject: "ann", Token: id, Groups: []string{"dev"}, Agent: "coder", Provider: "ollama", Skill: "review"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
}

func TestVerifyRefusesEverythingElseInTheSameWords(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	now := time.Now()
	good := create(t, store, Options{Subject: "ann"})
	expired := create(t, store, Options{Subject: "ann", Now: now.Add(-time.Hour), TTL: time.Hour})
	revoked := create(t, store, Options{Subject: "ann"})
	id, _ := idOf(revoked)
	if err := store.RevokeToken(t.Context(), id, now); err != nil {
		t.Fatal(err)
	}
	other := create(t, store, Options{Subject: "bob"})
	otherID, _ := idOf(other)
	goodID, _ := idOf(good)

	for name, plaintext := range map[string]string{
		"empty":                   "",
		"of another form":         "Bearer " + good,
		"without a secret":        "tr_" + goodID + "_",
		"without an id":           "tr__secret",
		"unknown":                 "tr_aaaaaaaaaaaa_" + strings.Repeat("a", 52),
		"a wrong secret":          good[:len(good)-1] + "_",
		"a longer secret":         good + "a",
		"the secret of another":   strings.Replace(other, otherID, goodID, 1),
		"long garbage":            "tr_" + strings.Repeat("a_", 1<<20),
		"expired, a wrong secret": expired[:len(expired)-1] + "_",
		"revoked":                 revoked,
	} {
		_, err := verifierAt(store, now).Verify(t.Context(), plaintext)
		var e *toolroom.Error
		if !errors.As(err, &e) || e.Code != toolroom.CodeUnauthenticated || e.Message != "the bearer token is not valid" {
			t.Errorf("%s: %v", name, err)
		} else if e.Cause == nil {
			t.Errorf("%s: no cause for the log", name)
		}
	}
}

func TestOnlyTheBearerOfAnExpiredTokenIsToldSo(t *testing.T) {
	t.Parallel()
	store, now := &memoryStore{}, time.Now()
	plaintext := create(t, store, Options{Subject: "ann", Now: now.Add(-time.Hour), TTL: time.Hour}) // this very moment
	for range 2 {                                                                                    // the first records the end
		_, err := verifierAt(store, now).Verify(t.Context(), plaintext)
		if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || toolroom.AsError(err).Message != "the token has expired" || !errors.Is(err, ErrExpired) {
			t.Errorf("the bearer hears %v", err)
		}
	}
	if _, err := verifierAt(store, now).Verify(t.Context(), plaintext[:len(plaintext)-1]+"_"); errors.Is(err, ErrExpired) {
		t.Errorf("somebody who knows its id hears %v", err)
	}
}

func TestACheckTokenUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		short, long := create(t, store, Options{Subject: "ann", TTL: time.Minute}), create(t, store, Options{Subject: "ann"})
		brief, _ := idOf(short)
		id, _ := idOf(long)
		here, there := NewVerifier(store, nil), NewVerifier(store, nil)
		holds := func(v *Verifier, id, end string) {
			t.Helper()
			err := v.Check(t.Context(), id)
			if end == "" && err != nil || end != "" && (toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || !strings.Contains(err.Error(), "the token of ann "+end)) {
				t.Errorf("Check = %v, want %q", err, end)
			}
		}
		for range 1000 {
			holds(here, id, "")
			holds(there, id, "")
			holds(here, brief, "")
			time.Sleep(time.Millisecond)
		}
		if store.reads != 6 {
			t.Errorf("%d reads of three in a second, want 6", store.reads)
		}
		if err := here.RevokeToken(t.Context(), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		create(t, store, Options{Subject: "ann"}) // another of the same subject does not bring it back
		holds(here, id, "was revoked")
		time.Sleep(time.Second)
		holds(there, id, "was revoked")
		time.Sleep(time.Minute)
		holds(here, brief, "has expired")
		holds(there, brief, "has expired")
		holds(here, "of another home", "")
		store.err = errors.New("locked")
		if err := NewVerifier(store, nil).Check(t.Context(), id); toolroom.CodeOf(err) != toolroom.CodeInternal {
			t.Errorf("with a store that fails: %v, want internal", err)
		}
	})
}

func TestVerifyDoesNotTakeAStoreThatFailsForAWrongToken(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	plaintext := create(t, store, Options{Subject: "ann"})
	store.err = errors.New("locked")
	if _, err := verifierAt(store, time.Now()).Verify(t.Context(), plaintext); toolroom.CodeOf(err) != toolroom.CodeInternal {
		t.Errorf("Verify = %v, want internal", err)
	}
}

func TestAVerifierReadsTheStoreOncePerHalfSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		plaintext := create(t, store, Options{Subject: "ann"})
		v := NewVerifier(store, nil)
		for range 1000 {
			verify(t, v, plaintext)
			time.Sleep(time.Millisecond)
		}
		if store.reads != 2 {
			t.Errorf("%d reads in a second, want 2", store.reads)
		}
	})
}

func TestAVerifierSeesWithinASecondThatATokenIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		plaintext := create(t, store, Options{Subject: "ann"})
		v := NewVerifier(store, nil)
		verify(t, v, plaintext)
		id, _ := idOf(plaintext)
		if err := store.RevokeToken(t.Context(), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for range 2 {
			if _, err := v.Verify(t.Context(), plaintext); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
				t.Errorf("Verify = %v, want unauthenticated", err)
			}
		}
		if len(v.cache) != 0 {
			t.Error("the revoked token is still remembered")
		}
	})
}

func TestAVerifierSeesAtOnceThatATokenHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		plaintext := create(t, store, Options{Subject: "ann", TTL: time.Minute})
		v := NewVerifier(store, nil)
		time.Sleep(time.Minute - time.Millisecond)
		verify(t, v, plaintext)
		time.Sleep(time.Millisecond)
		if _, err := v.Verify(t.Context(), plaintext); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
			t.Errorf("Verify = %v, want unauthenticated", err)
		}
	})
}

func TestAVerifierNotesTheLastUseOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memoryStore{}
		plaintext := create(t, store, Options{Subject: "ann"})
		v := NewVerifier(store, nil)
		start := time.Now()
		for range 90 {
			verify(t, v, plaintext)
			time.Sleep(time.Second)
		}
		if diff := cmp.Diff([]time.Time{start, start.Add(time.Minute)}, store.touches); diff != "" {
			t.Errorf("notes of use (-want +got):\n%s", diff)
		}
	})
}

func TestAVerifierRemembersNothingOfStrangers(t *testing.T) {
	t.Parallel()
	v := NewVerifier(&memoryStore{}, nil)
	for range 100 {
		if _, err := v.Verify(t.Context(), "tr_aaaaaaaaaaaa_"+strings.Repeat("a", 52)); err == nil {
			t.Fatal("a stranger's token was taken")
		}
	}
	if len(v.cache) != 0 {
		t.Errorf("%d entries remembered", len(v.cache))
	}
}

func TestCallersCannotChangeWhatAVerifierRemembers(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	plaintext := create(t, store, Options{Subject: "ann", Groups: []string{"dev"}})
	v := NewVerifier(store, nil)
	verify(t, v, plaintext).Groups[0] = "admin"
	if got := verify(t, v, plaintext).Groups[0]; got != "dev" {
		t.Errorf("group is %q after a caller changed its own copy", got)
	}
}

func BenchmarkVerifierVerify(b *testing.B) {
	store := &memoryStore{}
	plaintext, _, err := Create(b.Context(), store, Options{Subject: "ann"})
	if err != nil {
		b.Fatal(err)
	}
	v := NewVerifier(store, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), plaintext); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerifierCheck is what each call of a caller with a token pays.
func BenchmarkVerifierCheck(b *testing.B) {
	store := &memoryStore{}
	_, made, err := Create(b.Context(), store, Options{Subject: "ann", TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	v, ctx := NewVerifier(store, nil), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Check(ctx, made.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// verifierAt returns a verifier for which it is always now.
func verifierAt(store Store, now time.Time) *Verifier {
	return NewVerifier(store, func() time.Time { return now })
}

func create(t *testing.T, store Store, opts Options) string {
	t.Helper()
	plaintext, _, err := Create(t.Context(), store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return plaintext
}

func verify(t *testing.T, v *Verifier, plaintext string) toolroom.Identity {
	t.Helper()
	identity, err := v.Verify(t.Context(), plaintext)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// memoryStore is the store in its simplest form.
type memoryStore struct {
	Store
	mu      sync.Mutex
	tokens  []*Token
	err     error
	reads   int
	touches []time.Time
}

func (s *memoryStore) CreateToken(_ context.Context, t *Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *t
	s.tokens = append(s.tokens, &c)
	return nil
}

func (s *memoryStore) Token(_ context.Context, id string) (*Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if s.err != nil {
		return nil, s.err
	}
	for _, t := range s.tokens {
		if t.ID == id {
			c := *t
			return &c, nil
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "no token %s", id)
}

func (s *memoryStore) RevokeToken(_ context.Context, id string, now time.Time) error {
	return s.change(id, func(t *Token) { t.Revoked = now })
}

func (s *memoryStore) EndSession(context.Context, string, time.Time) error { return nil }

func (s *memoryStore) SessionEnded(context.Context, string) (bool, error) { return false, nil }

func (s *memoryStore) TouchToken(_ context.Context, id string, now time.Time) error {
	return s.change(id, func(t *Token) {
		t.LastUsed = now
		s.touches = append(s.touches, now)
	})
}

func (s *memoryStore) change(id string, f func(*Token)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		if t.ID == id {
			f(t)
		}
	}
	return nil
}

func TestAnExpiredTokenStaysSoWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for _, cached := range []bool{true, false} {
		store, now := &memoryStore{}, start
		plaintext := create(t, store, Options{Subject: "ann", Now: now, TTL: 100 * time.Millisecond})
		v := NewVerifier(store, func() time.Time { return now })
		if cached {
			if _, err := v.Verify(t.Context(), plaintext); err != nil {
				t.Fatal(err)
			}
		}
		now = start.Add(200 * time.Millisecond)
		if _, err := v.Verify(t.Context(), plaintext); err == nil {
			t.Fatal("it has expired")
		}
		now = start
		for name, v := range map[string]*Verifier{"the same verifier": v, "after a restart": NewVerifier(store, func() time.Time { return now })} {
			if _, err := v.Verify(t.Context(), plaintext); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
				t.Errorf("cached %v, %s: %v", cached, name, err)
			}
		}
	}
}

func TestNamesThatAPersonCannotReadAreRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a\x1b[2Jb", "a\nb", "a\u202eb", "a\u200bb", "a\u009bb", "\xff", "a\U000E0041"} {
		for field, o := range map[string]Options{
			"name": {Name: bad, Subject: "ann"}, "subject": {Subject: bad}, "group": {Subject: "ann", Groups: []string{bad}},
			"agent": {Subject: "ann", Agent: bad}, "provider": {Subject: "ann", Provider: bad}, "skill": {Subject: "ann", Skill: bad},
		} {
			if _, made, err := Create(t.Context(), &memoryStore{}, o); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Errorf("%s %q: %+v, %v", field, bad, made, err)
			}
		}
	}
	if _, _, err := Create(t.Context(), &memoryStore{}, Options{Name: "Zoë's robot, 2", Subject: "zoë@example.com"}); err != nil {
		t.Error(err)
	}
}

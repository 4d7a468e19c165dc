package secret_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// drawer is a backend in memory that counts how often it is asked.
type drawer struct {
	mu     sync.Mutex
	values map[secret.Ref]string
	asked  atomic.Int64
	// wait holds up answers, and began hears of the first question.
	wait  chan struct{}
	began func()
}

func (d *drawer) Get(_ context.Context, ref secret.Ref) (string, error) {
	d.asked.Add(1)
	if d.wait != nil {
		d.began()
		<-d.wait
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	value, ok := d.values[ref]
	if !ok {
		return "", secret.NotSetError(ref, "the drawer")
	}
	return value, nil
}

func (d *drawer) put(ref secret.Ref, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.values[ref] = value
}

var token = secret.Ref{Scope: "gh", Name: "token"}

func TestWhoseValueAReferenceIs(t *testing.T) {
	t.Parallel()
	d := &drawer{values: map[secret.Ref]string{
		token: "shared-value", token.Of("ann"): "value-of-ann", token.Of("bob"): "value-of-bob",
	}}
	for _, c := range []struct {
		values, caller, want string
		code                 toolroom.Code
	}{
		{"", "ann", "shared-value", ""},
		{secret.Shared, "ann", "shared-value", ""},
		{secret.Own, "ann", "value-of-ann", ""},
		{secret.Own, "bob", "value-of-bob", ""},
		{secret.Own, "eve", "", toolroom.CodeNotFound},
		{secret.Own, "", "", toolroom.CodeDenied},
		{secret.OwnOrShared, "ann", "value-of-ann", ""},
		{secret.OwnOrShared, "eve", "shared-value", ""},
		{secret.OwnOrShared, "", "shared-value", ""},
	} {
		file := open(t, t.TempDir(), secret.Options{})
		k := secret.NewResolver(file, secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Backend: d, Values: c.values}}})
		got, err := k.Resolve(secretref.WithCaller(t.Context(), c.caller), "secret://gh/token")
		if got != c.want || toolroom.CodeOf(err) != c.code {
			t.Errorf("values %q, caller %q: got %q, %v", c.values, c.caller, got, err)
		}
		if got != "" && strings.Contains(redacted(file.Redactor(), got), "value") {
			t.Errorf("%q is not redacted", got)
		}
	}
}

func TestTheFileKeepsValuesOfEachIdentityApart(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	s := open(t, home, secret.Options{})
	for owner, value := range map[string]string{"": "shared-value", "ann": "value-of-ann", "a/../b@x": "value-of-odd"} {
		if err := s.Set(t.Context(), token.Of(owner), value); err != nil {
			t.Fatal(err)
		}
	}
	k := secret.NewResolver(open(t, home, secret.Options{}), secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Values: secret.Own}}})
	for owner, want := range map[string]string{"ann": "value-of-ann", "a/../b@x": "value-of-odd", "eve": ""} {
		if got, err := k.Resolve(secretref.WithCaller(t.Context(), owner), "secret://gh/token"); got != want {
			t.Errorf("%s: got %q, %v", owner, got, err)
		}
	}
	// No text of a reference reaches the value of another.
	for _, text := range []string{"secret://gh/token@ann", "secret://gh/token%40ann", "secret://gh/../gh/token"} {
		if got, err := k.Resolve(secretref.WithCaller(t.Context(), "eve"), text); err == nil {
			t.Errorf("%s gave %q", text, got)
		}
	}
}

func TestARememberedValueIsReadAgainAfterItsTimeAndWhenRefused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := &drawer{values: map[secret.Ref]string{token: "value-1"}}
	k := secret.NewResolver(open(t, t.TempDir(), secret.Options{}), secret.ResolverOptions{
		Scopes: map[string]secret.Scope{"gh": {Backend: d}}, TTL: time.Minute, Now: func() time.Time { return now },
	})
	get := func(ctx context.Context, want string, asked int64) {
		t.Helper()
		got, err := k.Resolve(ctx, "secret://gh/token")
		if got != want || err != nil || d.asked.Load() != asked {
			t.Errorf("got %q, %v after %d looks, want %q after %d", got, err, d.asked.Load(), want, asked)
		}
	}
	get(t.Context(), "value-1", 1)
	d.put(token, "value-2")
	get(t.Context(), "value-1", 1)
	get(secretref.WithFresh(t.Context()), "value-2", 2)
	get(t.Context(), "value-2", 2)
	d.put(token, "value-3")
	now = now.Add(time.Minute)
	get(t.Context(), "value-3", 3)
	k.Configure(secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Backend: d}}})
	get(t.Context(), "value-3", 4)
}

func TestManyWhoWantAValueAtOnceAskOnce(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	d := &drawer{values: map[secret.Ref]string{token: "value-1"}, wait: make(chan struct{}), began: sync.OnceFunc(func() { close(began) })}
	k := secret.NewResolver(open(t, t.TempDir(), secret.Options{}), secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Backend: d}}})
	first, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := k.Resolve(first, "secret://gh/token")
		gone <- err
	}()
	<-began
	leave()
	if err := <-gone; err == nil {
		t.Error("who went away got a value")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if got, err := k.Resolve(t.Context(), "secret://gh/token"); got != "value-1" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	close(d.wait)
	wg.Wait()
	if n := d.asked.Load(); n > 2 {
		t.Errorf("the backend was asked %d times", n)
	}
}

func TestAnAnswerOfAnEarlierBackendDoesNotServeTheNextOne(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	before := &drawer{values: map[secret.Ref]string{token: "value-1"}, wait: make(chan struct{}), began: sync.OnceFunc(func() { close(began) })}
	after := &drawer{values: map[secret.Ref]string{token: "value-2"}}
	k := secret.NewResolver(open(t, t.TempDir(), secret.Options{}), secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Backend: before}}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = k.Resolve(t.Context(), "secret://gh/token")
	}()
	<-began
	k.Configure(secret.ResolverOptions{Scopes: map[string]secret.Scope{"gh": {Backend: after}}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got, err := k.Resolve(ctx, "secret://gh/token"); got != "value-2" {
		t.Errorf("got %q, %v", got, err)
	}
	close(before.wait)
	<-done
	if got, err := k.Resolve(t.Context(), "secret://gh/token"); got != "value-2" {
		t.Errorf("after the answer of the earlier one: got %q, %v", got, err)
	}
}

func TestOnlyNamedVariablesAreRead(t *testing.T) {
	t.Parallel()
	k := secret.NewResolver(open(t, t.TempDir(), secret.Options{}), secret.ResolverOptions{
		Variables: []string{"GH_TOKEN"},
		LookupEnv: func(name string) (string, bool) { return "value of " + name, true },
	})
	if got, err := k.Resolve(t.Context(), "env://GH_TOKEN"); got != "value of GH_TOKEN" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := k.Resolve(t.Context(), "env://AWS_SECRET_ACCESS_KEY"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAValueTooShortToRedactIsNotKept(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), secret.Options{})
	err := s.Set(t.Context(), token, "12345")
	if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || strings.Contains(err.Error(), "12345") {
		t.Errorf("got %v", err)
	}
}

package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

const (
	// cacheTime is how long a Verifier caches a token, and so how late it may notice a
	// revocation.
	cacheTime = 500 * time.Millisecond
	// touchEvery is the minimum interval between writes of the last use, so that
	// not every request writes.
	touchEvery = time.Minute
	// touchTimeout limits how long a request waits to write the last use if the
	// store is locked.
	touchTimeout = 100 * time.Millisecond
)

// Verifier is a Store that verifies tokens without reading the tokens at each request. It
// notices a revocation within a second, and one by its own RevokeToken usually at once. Its
// methods are safe for concurrent use.
type Verifier struct {
	Store
	now func() time.Time

	mu sync.Mutex
	// cache holds tokens of the store by id. Unknown ids do not get in, so callers cannot
	// make it grow beyond the store.
	cache map[string]cachedToken
}

type cachedToken struct {
	token   *Token // is not changed
	checked time.Time
}

// NewVerifier returns a Verifier for the tokens in store. A nil now means time.Now.
func NewVerifier(store Store, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{Store: store, now: now, cache: map[string]cachedToken{}}
}

// Verify returns the identity of a token's bearer and records the last use of the
// token. It caches tokens for a short time. If the token is invalid, the error has code
// unauthenticated and always the same message, and only its cause, for the log, has the
// reason. The exception is an expired token, whose error wraps [ErrExpired] and says so.
func (v *Verifier) Verify(ctx context.Context, plaintext string) (toolroom.Identity, error) {
	id, ok := idOf(plaintext)
	if !ok {
		return toolroom.Identity{}, unauthenticated("it does not have the form of a token")
	}
	now := v.now()
	t, err := v.find(ctx, id, now)
	switch {
	case toolroom.CodeOf(err) == toolroom.CodeNotFound:
		return toolroom.Identity{}, unauthenticated("token " + id + " not found")
	case err != nil:
		return toolroom.Identity{}, err
	}
	sum := sha256.Sum256([]byte(plaintext))
	if subtle.ConstantTimeCompare(sum[:], t.Hash) != 1 {
		return toolroom.Identity{}, unauthenticated("the secret of token " + id + " is wrong")
	}
	if how := v.ended(ctx, t, now); how != "" {
		e := unauthenticated("token " + id + " " + how)
		if how == expired {
			e.Message, e.Cause = "the token has expired", ErrExpired
		}
		return toolroom.Identity{}, e
	}
	if now.Sub(t.LastUsed) >= touchEvery {
		v.touch(ctx, t, now)
	}
	return t.Identity(), nil
}

// Check returns an error with code unauthenticated if the token with an id was revoked or has
// expired. It caches tokens for a short time. The token of another home holds, because only
// that home knows: a call on a worker of Temporal can have one.
func (v *Verifier) Check(ctx context.Context, id string) error {
	now := v.now()
	t, err := v.find(ctx, id, now)
	if err != nil {
		if toolroom.CodeOf(err) == toolroom.CodeNotFound {
			return nil
		}
		return err
	}
	if how := v.ended(ctx, t, now); how != "" {
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "the token of %s %s: nothing more runs on its behalf", t.Subject, how).
			WithHint("call again with a valid token").WithCLIHint("toolroom token create %s", t.Subject)
	}
	return nil
}

// RevokeToken implements [Store].
func (v *Verifier) RevokeToken(ctx context.Context, id string, now time.Time) error {
	defer v.uncacheToken(id)
	return v.Store.RevokeToken(ctx, id, now)
}

// find returns the token with an id. An unknown id is not_found.
func (v *Verifier) find(ctx context.Context, id string, now time.Time) (*Token, error) {
	v.mu.Lock()
	k, ok := v.cache[id]
	v.mu.Unlock()
	if ok && now.Sub(k.checked) < cacheTime {
		return k.token, nil
	}
	t, err := v.Store.Token(ctx, id)
	if err != nil {
		v.uncacheToken(id)
		return nil, fmt.Errorf("look up a token: %w", err)
	}
	v.cacheToken(t, now)
	return t, nil
}

// ended returns how a token has ended, or an empty text if it is valid.
func (v *Verifier) ended(ctx context.Context, t *Token, now time.Time) string {
	how := t.ended(now)
	if how != "" {
		t.makeExpiryFinal(ctx, v.Store)
		v.uncacheToken(t.ID)
	}
	return how
}

// touch records the last use of a token. It ignores errors, because the time only
// informs people and the token is valid without it.
func (v *Verifier) touch(ctx context.Context, t *Token, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, touchTimeout)
	defer cancel()
	_ = v.TouchToken(ctx, t.ID, now)
	used := *t
	used.LastUsed = now
	v.cacheToken(&used, now)
}

func (v *Verifier) cacheToken(t *Token, checked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cache[t.ID] = cachedToken{t, checked}
}

func (v *Verifier) uncacheToken(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.cache, id)
}

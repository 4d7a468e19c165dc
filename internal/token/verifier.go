package token

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

const (
	// recheck is how long a Verifier caches a token, and so how late it may notice a
	// revocation.
	recheck = 500 * time.Millisecond
	// touchEvery is the minimum interval between writes of the last use, so that
	// not every request writes.
	touchEvery = time.Minute
	// touchTimeout limits how long a request waits to write the last use if the
	// store is locked.
	touchTimeout = 100 * time.Millisecond
)

// Verifier verifies tokens without reading the store at each request. It notices a
// revocation, also by another process, within a second. Its methods are safe for
// concurrent use.
type Verifier struct {
	store Store
	now   func() time.Time

	mu sync.Mutex
	// known holds valid tokens by the hash of their plaintext. Only bearers of a valid
	// token can add to it, so other callers cannot make it grow.
	known map[[sha256.Size]byte]known
}

type known struct {
	token   *Token
	checked time.Time
}

// NewVerifier returns a Verifier for the tokens in store. A nil now means time.Now.
func NewVerifier(store Store, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{store: store, now: now, known: map[[sha256.Size]byte]known{}}
}

// Verify returns the identity of a token's bearer and records the last use of the
// token. It caches valid tokens for a short time. If the token is invalid for any
// reason, the error has code unauthenticated and always the same message; only its
// cause, for the log, has the reason.
func (v *Verifier) Verify(ctx context.Context, plaintext string) (toolroom.Identity, error) {
	now := v.now()
	sum := sha256.Sum256([]byte(plaintext))
	if k, ok := v.recall(sum); ok && now.Sub(k.checked) < recheck {
		if err := k.token.usable(now); err != nil {
			k.token.retire(ctx, v.store)
			v.forget(sum)
			return toolroom.Identity{}, err
		}
		return k.token.Identity(), nil
	}

	t, err := find(ctx, v.store, plaintext, now)
	if err != nil {
		v.forget(sum)
		return toolroom.Identity{}, err
	}
	if now.Sub(t.LastUsed) >= touchEvery {
		v.touch(ctx, t.ID, now)
	}
	v.remember(sum, known{t, now})
	return t.Identity(), nil
}

// touch records the last use of a token. It ignores errors, because the time only
// informs people and the token is valid without it.
func (v *Verifier) touch(ctx context.Context, id string, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, touchTimeout)
	defer cancel()
	_ = v.store.TouchToken(ctx, id, now)
}

func (v *Verifier) recall(sum [sha256.Size]byte) (known, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k, ok := v.known[sum]
	return k, ok
}

func (v *Verifier) remember(sum [sha256.Size]byte, k known) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known[sum] = k
}

func (v *Verifier) forget(sum [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.known, sum)
}

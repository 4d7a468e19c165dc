package token

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

const (
	// recheck is how long a Verifier trusts what it read: it bounds how late a
	// revocation is seen.
	recheck = 500 * time.Millisecond
	// touchEvery keeps the note of the last use from being a write per request.
	touchEvery = time.Minute
	// touchPatience keeps a request from waiting for that note when the store
	// is locked.
	touchPatience = 100 * time.Millisecond
)

// Verifier checks tokens without reading the store at each request. It sees a
// revocation, also by another process, within a second. Make one with
// NewVerifier; its methods are safe for concurrent use.
type Verifier struct {
	store Store
	now   func() time.Time

	mu sync.Mutex
	// known holds tokens that were good, by the hash of their plaintext. Only
	// holders of a token can add to it, so strangers cannot make it grow.
	known map[[sha256.Size]byte]known
}

type known struct {
	token   *Token
	checked time.Time
}

// NewVerifier makes a verifier over store; a nil clock is time.Now.
func NewVerifier(store Store, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{store: store, now: now, known: map[[sha256.Size]byte]known{}}
}

// Verify tells whom a plaintext stands for, from memory where that is fresh, and
// notes the last use of the token. Whatever is wrong with it, the error has the
// code unauthenticated and the same message; only its cause, for the log, says
// what.
func (v *Verifier) Verify(ctx context.Context, plaintext string) (toolroom.Identity, error) {
	now := v.now()
	sum := sha256.Sum256([]byte(plaintext))
	if k, ok := v.recall(sum); ok && now.Sub(k.checked) < recheck {
		if err := k.token.usable(now); err != nil {
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

// touch drops an error on purpose: the note only informs people, and the token
// is as good without it.
func (v *Verifier) touch(ctx context.Context, id string, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, touchPatience)
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

package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// expiredTokens stores expired tokens, by their hashes. The zero value is empty. Only the
// signatures of the configured issuers add to it. Its methods are safe for concurrent use.
type expiredTokens struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]time.Time // when it was last seen to be expired
}

// maxExpired limits the stored tokens, and keepExpired the time for which one is stored.
const (
	maxExpired  = 10_000
	keepExpired = 24 * time.Hour
)

func (e *expiredTokens) has(token string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.seen[sha256.Sum256([]byte(token))]
	return ok
}

// add stores a token. If the store is full, it drops old tokens, or any one if none is old.
func (e *expiredTokens) add(token string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = map[[sha256.Size]byte]time.Time{}
	}
	if len(e.seen) >= maxExpired {
		for sum, at := range e.seen {
			if now.Sub(at).Abs() > keepExpired {
				delete(e.seen, sum)
			}
		}
	}
	for sum := range e.seen {
		if len(e.seen) < maxExpired {
			break
		}
		delete(e.seen, sum)
	}
	e.seen[sha256.Sum256([]byte(token))] = now
}

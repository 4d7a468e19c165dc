package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// ended stores expired tokens, by their hashes. The zero value is empty. Only the
// signatures of the configured issuers add to it. Its methods are safe for concurrent use.
type ended struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]time.Time // when it was last seen to be expired
}

// maxEnded limits the stored tokens, and keepEnded how long one is stored.
const (
	maxEnded  = 10_000
	keepEnded = 24 * time.Hour
)

func (e *ended) has(token string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.seen[sha256.Sum256([]byte(token))]
	return ok
}

// add stores a token. A full store drops tokens that are old, or else any one.
func (e *ended) add(token string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = map[[sha256.Size]byte]time.Time{}
	}
	if len(e.seen) >= maxEnded {
		for sum, at := range e.seen {
			if now.Sub(at).Abs() > keepEnded {
				delete(e.seen, sum)
			}
		}
	}
	for sum := range e.seen {
		if len(e.seen) < maxEnded {
			break
		}
		delete(e.seen, sum)
	}
	e.seen[sha256.Sum256([]byte(token))] = now
}

package run

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// CacheLimits say whose results are remembered. The cache is off until tools
// are named: a read-only tool may still read something that changes.
type CacheLimits struct {
	// Tools are patterns as in policy. Only read-only tools are cached.
	Tools []string
	// TTL is how long a result is used (5 min, at most 1 h), Entries how many
	// are kept (1,000).
	TTL     time.Duration
	Entries int
}

const maxCacheTTL = time.Hour

// Validate reports patterns that cannot be read.
func (l CacheLimits) Validate() error {
	_, err := policy.ParsePatterns(l.Tools)
	return err
}

func withCache(next executor, l CacheLimits, now func() time.Time) executor {
	patterns, err := policy.ParsePatterns(l.Tools)
	if err != nil || len(patterns) == 0 { // Validate has told of an error
		return next
	}
	type cacheKey struct {
		id                          toolroom.ID
		provider, owner, hash, more string
	}
	type remembered struct {
		output  *source.Output
		expires time.Time
	}
	results, err := lru.New[cacheKey, remembered](max(l.Entries, 1))
	if err != nil { // only a size below one is an error
		return next
	}
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		if !x.entry.Tool.Hints.IsReadOnly() || !policy.AnyMatches(patterns, &x.entry.Tool) {
			return next(ctx, x)
		}
		key := cacheKey{x.entry.Tool.ID, x.entry.Provider, x.request.Identity.Key(), x.pass.argumentsHash(), string(x.request.More)}
		if r, ok := results.Get(key); ok && now().Before(r.expires) {
			x.cached = true
			return r.output, nil
		}
		out, err := next(ctx, x)
		if err == nil && !out.Failed {
			results.Add(key, remembered{out, now().Add(l.TTL)})
		}
		return out, err
	}
}

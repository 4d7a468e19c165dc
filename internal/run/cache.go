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
	Tools []string `yaml:"tools"`
	// TTL is how long a result is used (5 min, at most 1 h), Entries how many
	// are kept (1,000).
	TTL     time.Duration `yaml:"ttl"`
	Entries int           `yaml:"entries"`
}

const maxCacheTTL = time.Hour

// Validate reports patterns that cannot be read.
func (l CacheLimits) Validate() error {
	for _, text := range l.Tools {
		if _, err := policy.ParsePattern(text, nil); err != nil {
			return err
		}
	}
	return nil
}

func withCache(next executor, l CacheLimits, now func() time.Time) executor {
	var patterns []policy.Pattern
	for _, text := range l.Tools {
		// Validate has refused what cannot be read.
		if p, err := policy.ParsePattern(text, nil); err == nil {
			patterns = append(patterns, p)
		}
	}
	if len(patterns) == 0 {
		return next
	}
	type cacheKey struct {
		id                    toolroom.ID
		provider, owner, hash string
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
		if !x.entry.Tool.Hints.IsReadOnly() || !anyMatches(patterns, &x.entry.Tool) {
			return next(ctx, x)
		}
		key := cacheKey{x.entry.Tool.ID, x.entry.Provider, x.request.Identity.Key(), x.hash()}
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

func anyMatches(patterns []policy.Pattern, t *toolroom.Tool) bool {
	for _, p := range patterns {
		if p.Matches(t) {
			return true
		}
	}
	return false
}

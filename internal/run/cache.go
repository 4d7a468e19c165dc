package run

import (
	"cmp"
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// CacheLimits configure the cache of results. It is off until tools are named, because a
// read-only tool may read something that changes.
type CacheLimits struct {
	// Tools are patterns as in policy. Only read-only tools are cached.
	Tools []string
	// Groups are named sets of patterns that Tools may name, besides the built-in ones.
	Groups map[string][]string
	// TTL is how long a result is used (5 min, at most 1 h). Entries is how many results are
	// stored (1,000).
	TTL     time.Duration
	Entries int
}

const maxCacheTTL = time.Hour

// Validate returns an error if a pattern is invalid.
func (l CacheLimits) Validate() error {
	_, err := l.patterns()
	return err
}

func (l CacheLimits) patterns() ([]policy.Pattern, error) {
	return policy.Config{Groups: l.Groups}.ParsePatterns(l.Tools)
}

func withCache(next executor, l CacheLimits, now func() time.Time) executor {
	patterns, err := l.patterns()
	if err != nil || len(patterns) == 0 { // Validate reports the error
		return next
	}
	type cacheKey struct {
		id                                       toolroom.ID
		provider, owner, environment, hash, more string
		// source is compared too: after a reload another one may have the name.
		source source.Source
	}
	type remembered struct {
		output  *source.Output
		expires time.Time
	}
	results, err := lru.New[cacheKey, remembered](max(l.Entries, 1))
	if err != nil { // impossible: the size is positive
		return next
	}
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		if !x.call.entry.Tool.Hints.IsReadOnly() || !policy.MatchesTool(patterns, &x.call.entry.Tool) {
			return next(ctx, x)
		}
		key := cacheKey{x.call.entry.Tool.ID, x.call.entry.Provider, identity.Owner(x.request.Identity), cmp.Or(x.request.Environment, DefaultEnvironment), x.call.argumentsHash(), string(x.request.More), x.call.entry.Source}
		if r, ok := results.Get(key); ok && now().Before(r.expires) {
			x.cached = true
			return r.output, nil
		}
		out, err := next(ctx, x)
		if err == nil && !out.Failed && ctx.Err() == nil { // else it may be a part
			results.Add(key, remembered{out, now().Add(l.TTL)})
		}
		return out, err
	}
}

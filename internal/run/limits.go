package run

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// withConcurrency limits how many calls of a tool run at once. Other calls wait for a slot
// until their deadline.
func withConcurrency(next executor, fallback int) executor {
	var slots sync.Map // of *semaphore.Weighted, by slotKey
	type slotKey struct {
		id toolroom.ID
		n  int
	}
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		n := x.call.entry.Tool.Concurrency
		if n == 0 {
			n = fallback
		}
		if n <= 0 {
			return next(ctx, x)
		}
		key := slotKey{x.call.entry.Tool.ID, n}
		slot, ok := slots.Load(key)
		if !ok {
			slot, _ = slots.LoadOrStore(key, semaphore.NewWeighted(int64(n)))
		}
		s := slot.(*semaphore.Weighted)
		if err := s.Acquire(ctx, 1); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeOf(err), "%s may run only %d calls at once, and none of them finished in time", x.call.entry.Tool.ID, n)
		}
		defer s.Release(1)
		return next(ctx, x)
	}
}

// RateLimits limit how often one identity may call one tool.
type RateLimits struct {
	// PerSecond is the sustained rate; zero means unlimited. Burst is how many calls may
	// come at once (at least 1).
	PerSecond float64
	Burst     int
}

// maxBuckets limits the memory of the rate limit. Beyond it, full buckets are dropped: a new
// bucket would decide the same.
const maxBuckets = 10_000

func withRate(next executor, l RateLimits) executor {
	if l.PerSecond <= 0 {
		return next
	}
	type bucketKey struct {
		id    toolroom.ID
		owner string
	}
	burst := max(l.Burst, 1)
	var mu sync.Mutex
	buckets := map[bucketKey]*rate.Limiter{}
	get := func(key bucketKey) *rate.Limiter {
		mu.Lock()
		defer mu.Unlock()
		if b, ok := buckets[key]; ok {
			return b
		}
		if len(buckets) >= maxBuckets {
			for k, b := range buckets {
				if b.Tokens() >= float64(burst) {
					delete(buckets, k)
				}
			}
		}
		b := rate.NewLimiter(rate.Limit(l.PerSecond), burst)
		buckets[key] = b
		return b
	}
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		bucket := get(bucketKey{x.call.entry.Tool.ID, x.request.Identity.Key()})
		turn := bucket.Reserve()
		if wait := turn.Delay(); wait > 0 {
			turn.Cancel()
			e := toolroom.Errorf(toolroom.CodeRateLimited, "%s is called more than %g times a second by %s", x.call.entry.Tool.ID, l.PerSecond, x.request.Identity.Key())
			e.RetryAfter = wait
			return nil, e.WithHint("try again in %s", wait.Round(time.Millisecond))
		}
		return next(ctx, x)
	}
}

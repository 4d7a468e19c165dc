package run

import (
	"context"
	"math"
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

func withRate(next executor, l RateLimits) executor {
	if l.PerSecond <= 0 {
		return next
	}
	buckets := newBuckets(l)
	return func(ctx context.Context, x *execution) (*source.Output, error) {
		bucket := buckets.get(bucketKey{x.call.entry.Tool.ID, x.request.Identity.Key()})
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

type bucketKey struct {
	id    toolroom.ID
	owner string
}

// buckets holds the rate limiters that are not full. It drops a limiter that has not been used
// for as long as it takes to fill, because a new one would decide the same.
type buckets struct {
	limit rate.Limit
	burst int
	fill  time.Duration

	mu           sync.Mutex // guards the fields below
	recent, past map[bucketKey]*rate.Limiter
	turned       time.Time // when recent became past
}

func newBuckets(l RateLimits) *buckets {
	burst := max(l.Burst, 1)
	fill := min(float64(burst)/l.PerSecond*float64(time.Second), math.MaxInt64/2)
	return &buckets{
		limit: rate.Limit(l.PerSecond), burst: burst, fill: max(time.Duration(fill), time.Second),
		recent: map[bucketKey]*rate.Limiter{}, turned: time.Now(),
	}
}

func (b *buckets) get(key bucketKey) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.turned) >= b.fill {
		b.recent, b.past, b.turned = map[bucketKey]*rate.Limiter{}, b.recent, now
	}
	found, ok := b.recent[key]
	if !ok {
		if found, ok = b.past[key]; !ok {
			found = rate.NewLimiter(b.limit, b.burst)
		}
		b.recent[key] = found
	}
	return found
}

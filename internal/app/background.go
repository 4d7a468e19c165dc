package app

import (
	"context"
	"errors"
	"time"

	"github.com/toolroom/toolroom/internal/approval/hook"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/proc"
)

// Start starts the background work of a server: it lists all sources, also again after
// failures, runs submitted calls, starts sandboxes ahead and removes what has expired. The
// work ends with ctx or Close. Idle sandboxes end with Close.
func (r *App) Start(ctx context.Context) {
	if n := proc.Sweep(); n > 0 {
		r.log.Warn("ended processes that a crashed Toolroom left behind", "processes", n)
	}
	if n := lockdown.Sweep(); n > 0 {
		r.log.Warn("removed leftovers of a crashed Toolroom's sandboxes", "count", n)
	}
	r.warnOfProxies()
	ctx, stop := context.WithCancel(ctx)
	r.mu.Lock()
	r.stop = stop
	r.mu.Unlock()
	r.approvals.KeepOnceDone(ctx.Done())
	for _, m := range r.allManagers() {
		m.keepListed()
	}
	r.startSearch(ctx)
	r.settleIntents(ctx)
	r.background.Go(func() { r.worker.Run(ctx) })
	r.background.Go(func() { r.schedules.Run(ctx) })
	r.background.Go(func() {
		hook.New(hook.Options{Approvals: r.approvals, Hooks: r.webhooks, Redact: r.redactor.Redact, Log: r.log}).Run(ctx)
	})
	r.background.Go(func() {
		every(ctx, sweepPeriod, func() { panics.Log(r.log, "removing what has expired", func() { r.sweep(ctx) }) })
	})
	r.background.Go(func() {
		every(ctx, expirePeriod, func() { panics.Log(r.log, "expiring tokens and approvals", func() { r.expire(ctx) }) })
	})
	r.background.Go(func() { r.served.follow(ctx) })
	r.background.Go(func() { panics.Log(r.log, "starting sandboxes ahead", func() { r.warm(ctx) }) })
}

// every calls do after each period until ctx ends.
func every(ctx context.Context, period time.Duration, do func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// expirePeriod is how often a server makes expiry final. What was used meanwhile is final
// at once.
const expirePeriod = time.Minute

// expire makes what has expired stay so if the clock is set back.
func (r *App) expire(ctx context.Context) {
	now := time.Now()
	err := errors.Join(r.approvals.Expire(ctx), r.store.ExpireElevations(ctx, now))
	tokens, listing := r.store.Tokens(ctx)
	err = errors.Join(err, listing)
	for _, t := range tokens {
		if t.Revoked.IsZero() && !t.Expires.IsZero() && !now.Before(t.Expires) {
			err = errors.Join(err, r.store.RevokeToken(ctx, t.ID, t.Expires))
		}
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("cannot record what has expired", "error", err)
	}
}

// sweepPeriod is how often a server removes what has expired.
const sweepPeriod = 10 * time.Minute

func (r *App) sweep(ctx context.Context) {
	if err := r.artifacts.Sweep(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("cannot remove expired artifacts", "error", err)
	}
	r.settleIntents(ctx)
	r.forget(ctx, time.Now())
	r.collectLayers(ctx)
}

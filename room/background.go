package room

import (
	"context"
	"time"

	"github.com/toolroom/toolroom/internal/approval/hook"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

// Start begins what a server does beside answering: it lists all sources, now
// and after failures, runs submitted calls, starts sandboxes ahead, and removes what has expired.
// It ends with ctx or Close; sandboxes that wait end with Close.
func (r *Room) Start(ctx context.Context) {
	if n := proc.Sweep(); n > 0 {
		r.log.Warn("ended processes that an earlier Toolroom left behind", "processes", n)
	}
	if n := lockdown.Sweep(); n > 0 {
		r.log.Warn("removed what sandboxes of an earlier Toolroom left behind", "count", n)
	}
	r.warnOfProxies()
	ctx, r.stop = context.WithCancel(ctx)
	r.desk.KeepOnceDone(ctx.Done())
	for _, h := range r.allHosts() {
		h.keepListed()
	}
	r.settleIntents(ctx)
	r.background.Go(func() { r.worker.Run(ctx) })
	r.background.Go(func() { hook.New(hook.Options{Desk: r.desk, Hooks: r.webhooks, Log: r.log}).Run(ctx) })
	r.background.Go(func() { every(ctx, sweepPeriod, r.sweep) })
	r.background.Go(func() { r.warm(ctx) })
	r.background.Go(func() { every(ctx, readmitPeriod, r.readmit) })
}

// every calls do after each period, until ctx ends.
func every(ctx context.Context, period time.Duration, do func(context.Context)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}

// sweepPeriod is how often a server removes what has expired.
const sweepPeriod = 10 * time.Minute

func (r *Room) sweep(ctx context.Context) {
	if err := r.artifacts.Sweep(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("expired artifacts were not removed", "error", err)
	}
	r.settleIntents(ctx)
	r.forget(ctx, time.Now())
}

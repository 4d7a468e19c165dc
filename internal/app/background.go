package app

import (
	"context"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/run"
)

// Start starts the background work of a server: it lists all sources, also again after
// failures, runs submitted calls, starts sandboxes ahead and removes what has expired. The
// work ends with ctx or Close. Idle sandboxes end with Close.
func (a *App) Start(ctx context.Context) {
	if n := proc.Sweep(); n > 0 {
		a.log.Warn("ended processes that a crashed Toolroom left behind", "processes", n)
	}
	if n := lockdown.Sweep(); n > 0 {
		a.log.Warn("removed leftovers of a crashed Toolroom's sandboxes", "count", n)
	}
	a.warnOfProxies()
	ctx, stop := context.WithCancel(ctx)
	a.mu.Lock()
	if before := a.stop; before != nil { // of another Start
		a.stop = func() { before(); stop() }
	} else {
		a.stop = stop
	}
	a.mu.Unlock()
	a.approvals.KeepQuestionsAfter(ctx.Done())
	for _, m := range a.allManagers() {
		m.listUntilSuccess()
	}
	a.startSearch(ctx)
	a.settleIntents(ctx)
	a.background.Go(func() { a.worker.Run(ctx) })
	a.background.Go(func() { a.schedules.Run(ctx) })
	a.background.Go(func() {
		approval.NewNotifier(approval.NotifierOptions{Approvals: a.approvals, Hooks: a.webhooks, Redact: a.redactor.Redact, Log: a.log}).Run(ctx)
	})
	a.background.Go(func() {
		every(ctx, sweepPeriod, func() { panics.Log(a.log, "removing what has expired", func() { a.removeExpired(ctx) }) })
	})
	a.background.Go(func() {
		every(ctx, expirePeriod, func() { panics.Log(a.log, "expiring tokens and approvals", func() { a.finalizeExpired(ctx) }) })
	})
	a.background.Go(func() { a.servedVersions.follow(ctx) })
	a.background.Go(func() { panics.Log(a.log, "starting sandboxes ahead", func() { a.warm(ctx) }) })
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

// expirePeriod is how often a server calls finalizeExpired. A use after the expiry is
// recorded at once.
const expirePeriod = time.Minute

// finalizeExpired records what has expired, so that it stays expired if the clock is set
// back.
func (a *App) finalizeExpired(ctx context.Context) {
	now := time.Now()
	err := errors.Join(a.approvals.Expire(ctx), a.store.ExpireElevations(ctx, now))
	tokens, listing := a.store.Tokens(ctx)
	err = errors.Join(err, listing)
	for _, t := range tokens {
		if t.Revoked.IsZero() && !t.Expires.IsZero() && !now.Before(t.Expires) {
			err = errors.Join(err, a.store.RevokeToken(ctx, t.ID, t.Expires))
		}
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("cannot record what has expired", "error", err)
	}
}

// sweepPeriod is how often a server removes what has expired.
const sweepPeriod = 10 * time.Minute

func (a *App) removeExpired(ctx context.Context) {
	if err := a.artifacts.Sweep(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("cannot remove expired artifacts", "error", err)
	}
	a.settleIntents(ctx)
	a.removeOldData(ctx, time.Now())
	a.collectLayers(ctx)
}

// drainPoll is how often Drain checks.
const drainPoll = 10 * time.Millisecond

// Running returns how many calls are running a tool; see [run.Runner.Running].
func (a *App) Running() int { return a.runner.Running() }

// Drain waits until no tool is running or ctx ends. Calls that wait for a person do not
// count. It does not block new calls.
func (a *App) Drain(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for a.Running() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Jobs lists the submitted and suspended calls of one caller (see [toolroom.Identity.Key];
// empty means all callers), newest first.
func (a *App) Jobs(ctx context.Context, owner string, limit int) ([]*run.Job, error) {
	return a.store.ListJobs(ctx, owner, limit)
}

// Job returns one job, or an error with code not_found.
func (a *App) Job(ctx context.Context, id string) (*run.Job, error) { return a.store.Job(ctx, id) }

// Resume waits until a job is done, and runs it here if no other process does. sink
// receives its events while it runs here; it may be nil.
func (a *App) Resume(ctx context.Context, id string, sink func(toolroom.Event)) (*toolroom.Result, error) {
	if sink != nil {
		ctx = run.WithSink(ctx, sink)
	}
	return a.worker.Resume(ctx, id)
}

// CancelJob cancels a job, or asks the process that runs it to.
func (a *App) CancelJob(ctx context.Context, id string) error {
	return a.worker.CancelJob(ctx, id)
}

// Detachable returns a context for calls that are to be suspended rather than cancelled if
// ctx ends while they wait for a person. They continue in the next process that calls Start
// or Resume.
func Detachable(ctx context.Context) (context.Context, context.CancelFunc) {
	kept, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(run.ErrDetached) })
	return kept, func() { stop(); end(nil) }
}

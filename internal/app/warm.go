package app

import (
	"context"
	"fmt"
	"time"

	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// WarmPool reports on the sandboxes that a runtime has started ahead in one profile since
// [App.Start].
type WarmPool struct {
	Runtime  string `json:"runtime"`
	Profile  string `json:"profile"`
	Size     int    `json:"size"`     // target number
	Ready    int    `json:"ready"`    // idle
	Starting int    `json:"starting"` // starting, or waiting to retry after a failure
	Taken    int    `json:"taken"`    // programs that got one
	Drained  int    `json:"drained"`  // programs that found the pool empty and waited for a start
	Failures int    `json:"failures"` // failed starts, and sandboxes that ended while idle
	// Problem is why the last start failed; empty if it succeeded.
	Problem string `json:"problem,omitempty"`
}

// warmSettings returns how many sandboxes a driver starts ahead.
func (a *App) warmSettings(d sandbox.Driver) hosted.Warm {
	if d.Name() == "host" {
		return hosted.Warm{} // a process of the host machine starts at once
	}
	c := a.started.Code
	return hosted.Warm{Size: c.WarmSize(d.Name()), MaxAge: c.Warm[d.Name()].MaxAge}
}

// warmDelay is the pause after which a starting server starts sandboxes ahead.
const warmDelay = time.Second

// warm makes the drivers start sandboxes ahead.
func (a *App) warm(ctx context.Context) {
	select {
	case <-time.After(warmDelay):
		a.eachWarmEngine(ctx, func(e *hosted.Engine, s sandbox.Spec) { e.Warm(s) })
	case <-ctx.Done():
	}
}

// eachWarmEngine calls do for each engine that starts sandboxes ahead, with their specs:
// the engines that the config names, or by default the available ones.
func (a *App) eachWarmEngine(ctx context.Context, do func(*hosted.Engine, sandbox.Spec)) {
	for _, one := range a.engines {
		e, ok := one.(*hosted.Engine)
		if !ok || e.WarmConfig().Size == 0 || a.code == nil {
			continue
		}
		if _, named := a.started.Code.Warm[e.Name()]; !named && e.Probe(ctx).State != sandbox.Available {
			continue
		}
		for _, profile := range a.started.Code.WarmProfiles(e.Name()) {
			if s, err := a.code.ProfileSpec(profile); err == nil { // the config's limits, without a caller's
				do(e, s)
			}
		}
	}
}

// WarmPools lists the pools of idle sandboxes; none before [App.Start].
func (a *App) WarmPools() []WarmPool {
	var all []WarmPool
	for _, one := range a.engines {
		e, ok := one.(*hosted.Engine)
		if !ok {
			continue
		}
		for _, s := range e.Stats() {
			p := WarmPool{
				Runtime: e.Name(), Profile: string(s.Profile), Size: s.Size, Ready: s.Ready, Starting: s.Starting,
				Taken: s.Taken, Drained: s.Drained, Failures: s.Failures,
			}
			if s.Problem != nil {
				p.Problem = s.Problem.Error()
			}
			all = append(all, p)
		}
	}
	return all
}

// checkWarm reports on the pools. A command that does not serve has none; it tries one
// start of each.
func (a *App) checkWarm(ctx context.Context) []Check {
	pools := a.WarmPools()
	var checks []Check
	for _, p := range pools {
		checks = append(checks, p.check())
	}
	if len(pools) > 0 {
		return checks
	}
	a.eachWarmEngine(ctx, func(e *hosted.Engine, s sandbox.Spec) {
		size := e.WarmConfig().Size
		c := Check{Name: warmName(e.Name(), string(s.Profile)), Status: CheckOK}
		began := time.Now()
		err := e.Try(ctx, s)
		took := time.Since(began).Round(testRounding)
		c.Detail = fmt.Sprintf("%d idle while Toolroom serves; a test start took %s", size, took)
		if err != nil {
			c.Status, c.Fix = CheckWarn, warmFix(e.Name())
			c.Detail = fmt.Sprintf("%d should be idle, but a start fails: %s", size, err)
		}
		checks = append(checks, c)
	})
	return checks
}

func (p WarmPool) check() Check {
	c := Check{Name: warmName(p.Runtime, p.Profile), Status: CheckOK}
	c.Detail = fmt.Sprintf("%d of %d idle; %d programs got one, %d found none; %d starts failed", p.Ready, p.Size, p.Taken, p.Drained, p.Failures)
	if p.Problem != "" {
		c.Status, c.Fix = CheckWarn, warmFix(p.Runtime)
		c.Detail += ", last error: " + p.Problem
	}
	return c
}

func warmName(runtime, profile string) string { return "warm " + runtime + " " + profile }

func warmFix(runtime string) string {
	return "see runtime " + runtime + " above, or set code: {warm: {" + runtime + ": {size: 0}}}"
}

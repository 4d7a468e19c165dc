package room

import (
	"context"
	"fmt"
	"time"

	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// WarmPool is what became of the sandboxes that a runtime starts ahead in one
// profile, since [Room.Start].
type WarmPool struct {
	Runtime  string `json:"runtime"`
	Profile  string `json:"profile"`
	Size     int    `json:"size"`     // that shall wait
	Ready    int    `json:"ready"`    // that wait
	Starting int    `json:"starting"` // that are being started, or are to be after a failure
	Taken    int    `json:"taken"`    // programs that got one
	Drained  int    `json:"drained"`  // programs that found none of their kind, and waited for a start
	Failures int    `json:"failures"` // starts that failed, and sandboxes that ended while they waited
	// Problem is why the last start failed; empty after one that did not.
	Problem string `json:"problem,omitempty"`
}

// ahead is what the config has a driver start ahead.
func (r *Room) ahead(d sandbox.Driver) hosted.Warm {
	if d.Name() == "host" {
		return hosted.Warm{} // a process of the host starts at once
	}
	c := r.config.Code
	return hosted.Warm{Size: c.WarmSize(d.Name()), MaxAge: c.Warm[d.Name()].MaxAge}
}

// warmDelay lets the server itself start first.
const warmDelay = time.Second

// warm has the drivers start ahead.
func (r *Room) warm(ctx context.Context) {
	select {
	case <-time.After(warmDelay):
		r.eachAhead(ctx, func(e *hosted.Engine, s sandbox.Spec) { e.Warm(s) })
	case <-ctx.Done():
	}
}

// eachAhead gives the engines that start ahead, with what they start: those that
// the config names, and by default those that are there.
func (r *Room) eachAhead(ctx context.Context, do func(*hosted.Engine, sandbox.Spec)) {
	for _, one := range r.engines {
		e, ok := one.(*hosted.Engine)
		if !ok || e.Ahead().Size == 0 || r.code == nil {
			continue
		}
		if _, named := r.config.Code.Warm[e.Name()]; !named && e.Probe(ctx).State != sandbox.Available {
			continue
		}
		for _, profile := range r.config.Code.WarmProfiles(e.Name()) {
			if s, err := r.code.Usual(profile); err == nil { // the config's limits are none of a caller
				do(e, s)
			}
		}
	}
}

// WarmPools are the pools of sandboxes that wait; none before [Room.Start].
func (r *Room) WarmPools() []WarmPool {
	var all []WarmPool
	for _, one := range r.engines {
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

// checkWarm tells how the pools are. Where none are kept, as in a command that
// does not serve, it tries one start of each.
func (r *Room) checkWarm(ctx context.Context) []Check {
	pools := r.WarmPools()
	var checks []Check
	for _, p := range pools {
		checks = append(checks, p.check())
	}
	if len(pools) > 0 {
		return checks
	}
	r.eachAhead(ctx, func(e *hosted.Engine, s sandbox.Spec) {
		size := e.Ahead().Size
		c := Check{Name: warmName(e.Name(), string(s.Profile)), Status: CheckOK}
		began := time.Now()
		err := e.Try(ctx, s)
		took := time.Since(began).Round(testRounding)
		c.Detail = fmt.Sprintf("%d wait while Toolroom serves; one was started and removed in %s", size, took)
		if err != nil {
			c.Status, c.Fix = CheckWarn, warmFix(e.Name())
			c.Detail = fmt.Sprintf("%d are to wait, and a start fails: %s", size, err)
		}
		checks = append(checks, c)
	})
	return checks
}

func (p WarmPool) check() Check {
	c := Check{Name: warmName(p.Runtime, p.Profile), Status: CheckOK}
	c.Detail = fmt.Sprintf("%d of %d wait; %d programs got one, %d found none; %d starts failed", p.Ready, p.Size, p.Taken, p.Drained, p.Failures)
	if p.Problem != "" {
		c.Status, c.Fix = CheckWarn, warmFix(p.Runtime)
		c.Detail += ", the last: " + p.Problem
	}
	return c
}

func warmName(runtime, profile string) string { return "warm " + runtime + " " + profile }

func warmFix(runtime string) string {
	return "see runtime " + runtime + " above, or write code: {warm: {" + runtime + ": {size: 0}}}"
}

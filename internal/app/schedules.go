package app

import (
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schedule"
)

func (a *App) newSchedules() *schedule.Service {
	return schedule.New(schedule.Options{
		Store: a.store, Jobs: a.store, Taints: a.store, Log: a.log,
		Enabled:         func() bool { return a.Config().Builtin.On("cron", a.o.Workspace != "") },
		CurrentIdentity: a.withValidToken, Check: a.checkScheduled, OnQueued: a.worker.Wake,
	})
}

func (a *App) cronPack(c *config.Config) *builtin.Pack {
	o := system.CronOptions{Schedules: a.schedules, Surface: run.SurfaceOf, Labels: run.TaintOf}
	if c.Builtin.Cron != nil {
		o.Zone = c.Builtin.Cron.Timezone
	}
	return system.CronPack(o)
}

// checkScheduled returns an error if a call could not be made now, so that its schedule
// would fail each time.
func (a *App) checkScheduled(ctx context.Context, call toolroom.Call) error {
	e, err := a.runner.Find(ctx, &call)
	if err != nil {
		return err
	}
	arguments, err := jsonx.Decode(orEmpty(call.Arguments), jsonx.Limits{Bytes: a.runner.Limits().InputBytes})
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s cannot be read: %w", e.ID, err)
	}
	input, err := e.Input()
	if err == nil && input != nil {
		err = input.Validate(arguments)
	}
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments do not fit %s: %w", e.ID, err).
			WithHint("see its input schema").WithCLIHint("toolroom describe %s", e.ID)
	}
	decision, err := a.ExplainFor(ctx, toolroom.Call{Tool: call.Tool, Identity: call.Identity, Environment: call.Environment, Arguments: orEmpty(call.Arguments)})
	if err == nil && decision.Effect == toolroom.VerdictDeny {
		err = toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s", call.Identity, e.ID, decision.Rule).WithHint("%s", decision.Hint)
	}
	return err
}

func orEmpty(arguments []byte) []byte {
	if len(arguments) == 0 {
		return []byte("{}")
	}
	return arguments
}

// withValidToken returns an identity with one of today's tokens that make it. It returns an error
// if the identity came with a bearer token, and none does now: they were revoked, have expired,
// or have other groups.
func (a *App) withValidToken(ctx context.Context, who toolroom.Identity) (toolroom.Identity, error) {
	if who.Subject == "" || who.Scopes != nil {
		return who, nil // the operator; or known to another server, which cannot be asked
	}
	tokens, err := a.store.Tokens(ctx)
	if err != nil {
		return who, err
	}
	hadOne, now := false, time.Now()
	for _, t := range tokens {
		if t.Subject != who.Subject {
			continue
		}
		hadOne = true
		made := t.Identity()
		if t.Revoked.IsZero() && (t.Expires.IsZero() || now.Before(t.Expires)) && sameGroups(made.Groups, who.Groups) &&
			(made.Agent == "" || made.Agent == who.Agent) && (made.Provider == "" || made.Provider == who.Provider) && (made.Skill == "" || made.Skill == who.Skill) && (made.Set == "" || made.Set == who.Set) && made.Environment == who.Environment {
			who.Token = t.ID
			return who, nil
		}
	}
	if !hadOne {
		return who, nil // it is known by other means
	}
	return who, toolroom.Errorf(toolroom.CodeDenied, "%s has no valid token with the same groups any more", who).
		WithHint("create a token, and make the schedule again").WithCLIHint("toolroom token create %s", who.Subject)
}

func sameGroups(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

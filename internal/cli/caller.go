package cli

import (
	"cmp"
	"context"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// caller holds the flags for the caller's identity and the call's options.
type caller struct {
	agent, provider, skill string
	set                    string
	session, key           string
	environment            string
	timeout                time.Duration
	noWait                 bool
}

func (w *caller) flags(c *cobra.Command) {
	w.identityFlags(c)
	f := c.Flags()
	f.StringVar(&w.session, "session", "", "session to keep state in")
	w.environmentFlag(c)
	f.DurationVar(&w.timeout, "timeout", 0, "maximum run time, such as 10s (default 30s)")
	f.BoolVar(&w.noWait, "no-wait", false, "fail immediately if the call needs an approval")
}

// identityFlags adds the flags that restrict the caller.
func (w *caller) identityFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.agent, "agent", "", "act as this agent, which policy may restrict")
	f.StringVar(&w.provider, "provider", "", "act for this model provider, which policy may restrict")
	f.StringVar(&w.skill, "skill", "", "act within this skill, restricted to its manifest")
	f.StringVar(&w.set, "set", "", "act within this tool set of the config")
}

func (w *caller) environmentFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.environment, "env", "", "environment whose released versions are used (default prod)")
}

// viewer returns the identity for commands that only show tools: the caller in --env.
func (w *caller) viewer(r *app.App) (toolroom.Identity, error) {
	who := w.identity()
	who.Environment = w.environment
	return who, cmp.Or(w.checkText(), r.CheckEnvironment(w.environment))
}

func (w *caller) keyFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.key, "key", "", "idempotency key: a repeated call returns the first result")
}

func (w *caller) identity() toolroom.Identity {
	return toolroom.Identity{Agent: w.agent, Provider: w.provider, Skill: w.skill, Set: w.set}
}

// checkText rejects flags that are not UTF-8. JSON would replace such bytes, so that two
// different values would be the same in rules, receipts and keys.
func (w *caller) checkText() error {
	for _, flag := range [][2]string{
		{"--agent", w.agent}, {"--provider", w.provider}, {"--skill", w.skill}, {"--set", w.set}, {"--session", w.session}, {"--key", w.key},
	} {
		if !utf8.ValidString(flag[1]) {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s %q is not UTF-8 text", flag[0], truncate(flag[1], 40))
		}
	}
	return nil
}

// call returns a call by this caller, without a tool.
func (w *caller) call() (toolroom.Call, error) {
	if w.timeout < 0 {
		return toolroom.Call{}, usage("--timeout 10s", "invalid timeout %v", w.timeout)
	}
	if err := w.checkText(); err != nil {
		return toolroom.Call{}, err
	}
	return toolroom.Call{
		Identity:       w.identity(),
		Session:        w.session,
		Environment:    w.environment,
		Surface:        "cli",
		Timeout:        w.timeout,
		IdempotencyKey: w.key,
		NoWait:         w.noWait,
	}, nil
}

// operator returns the identity of the local operator, who types the commands.
func operator() toolroom.Identity { return toolroom.Identity{} }

// loadAll lists the tools of all sources, or of the one with a namespace. If several are listed,
// it prints which of them failed and which list is old instead of returning an error, because
// the tools of the others, and the built-in ones, can still be found.
func (a *cli) loadAll(ctx context.Context, r *app.App, namespace string) error {
	done := a.screen.showActivity("listing the tools of the sources")
	defer done()
	var names []string
	if namespace != "" {
		names = append(names, namespace)
	}
	err := r.Load(ctx, names...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	done()
	outdated := r.Outdated()
	for _, s := range r.Sources() {
		switch at := outdated[s.Name]; {
		case namespace != "" && s.Name != namespace:
		case !s.Listed && namespace != "":
			return err
		case !s.Listed:
			a.screen.say("the tools of %s are not known: %s\ncheck it: toolroom sources test %s", s.Name, oneLine(cmp.Or(s.Error, s.State)), s.Name)
		case !at.IsZero():
			a.screen.say("the tools of %s are those of %s; list them again: toolroom sources test %s", s.Name, formatTime(at), s.Name)
		}
	}
	return nil
}

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

// caller holds the flags that say as whom and how to call.
type caller struct {
	agent, provider, skill string
	session, key           string
	timeout                time.Duration
	noWait                 bool
}

func (w *caller) flags(c *cobra.Command) {
	w.identityFlags(c)
	f := c.Flags()
	f.StringVar(&w.session, "session", "", "session to keep state in")
	f.DurationVar(&w.timeout, "timeout", 0, "longest run time, such as 10s (default 30s)")
	f.BoolVar(&w.noWait, "no-wait", false, "fail at once where a person has to approve")
}

// identityFlags are those that narrow what the caller may call.
func (w *caller) identityFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.agent, "agent", "", "act as this agent (policy may narrow by it)")
	f.StringVar(&w.provider, "provider", "", "act for this model provider (policy may narrow by it)")
	f.StringVar(&w.skill, "skill", "", "act within this skill (policy narrows to what its manifest permits)")
}

func (w *caller) keyFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.key, "key", "", "idempotency key: repeats of the call return its first result")
}

func (w *caller) identity() toolroom.Identity {
	return toolroom.Identity{Agent: w.agent, Provider: w.provider, Skill: w.skill}
}

// call is a call by this caller, without a tool.
func (w *caller) call() (toolroom.Call, error) {
	if w.timeout < 0 {
		return toolroom.Call{}, usage("--timeout 10s", "a call cannot run for %v", w.timeout)
	}
	return toolroom.Call{
		Identity:       w.identity(),
		Session:        w.session,
		Surface:        "cli",
		Timeout:        w.timeout,
		IdempotencyKey: w.key,
		NoWait:         w.noWait,
	}, nil
}

// me is the local operator, who types the commands.
func me() toolroom.Identity { return toolroom.Identity{} }

// loadAll lists all sources, or those of a namespace. That one of many could not
// be listed is for the log: what the others have is there to be found.
func loadAll(ctx context.Context, r *room.Room, namespace string) error {
	var names []string
	if namespace != "" {
		names = append(names, namespace)
	}
	err := r.Load(ctx, names...)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	for _, s := range r.Sources() {
		if s.Listed && (namespace == "" || s.Name == namespace) {
			return nil
		}
	}
	return err
}

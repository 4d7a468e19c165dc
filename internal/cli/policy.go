package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/room"
)

func (a *app) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "policy",
		Short:   "See what the rules say",
		Example: "  toolroom policy explain --agent fast file:write",
	}
	onlyHolds(c)
	c.AddCommand(a.policyExplainCommand())
	return c
}

func (a *app) policyExplainCommand() *cobra.Command {
	var who toolroom.Identity
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain ID [ARGUMENTS]",
		Short: "Show which rule allows, denies or confirms a tool or a call, and for whom",
		Long:  "With arguments, as toolroom call takes them, rules about effects have their say, and what the call would do is shown. Nothing is run.",
		Example: `  toolroom policy explain file:write
  toolroom policy explain file:write path=/etc/hosts
  toolroom policy explain --agent fast --provider ollama web:search --json`,
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeTool,
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			if len(args) > 1 {
				return a.explainCall(ctx, r, who, args[0], args[1:], asJSON)
			}
			decision, steps, err := r.Explain(ctx, args[0], who)
			if err != nil {
				return err
			}
			if asJSON {
				return a.screen.json(struct {
					policy.Decision
					Steps []policy.Step `json:"steps"`
				}{decision, orEmpty(steps)})
			}
			return a.printDecision(args[0], who, decision, steps)
		}),
	}
	f := c.Flags()
	f.StringVar(&who.Subject, "subject", "", "for this person, service or token (default: you)")
	f.StringVar(&who.Agent, "agent", "", "for this agent")
	f.StringVar(&who.Provider, "provider", "", "for this model provider")
	f.BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

func (a *app) printDecision(tool string, who toolroom.Identity, d policy.Decision, steps []policy.Step) error {
	because := ""
	if d.Because != (toolroom.Effect{}) {
		because = ", because it " + d.Because.String()
	}
	if err := a.screen.printf("%s for %s: %s, by %s%s\n", tool, who, d.Effect, d.Rule, because); err != nil {
		return err
	}
	rows := make([][]string, len(steps))
	for i, s := range steps {
		rows[i] = []string{s.Layer, effectOf(s), s.Rule}
	}
	if len(rows) > 0 {
		if err := a.screen.table([]string{"LAYER", "SAYS", "RULE"}, rows); err != nil {
			return err
		}
	}
	if d.Hint != "" {
		a.screen.say("  try: %s", d.Hint)
	}
	return nil
}

func effectOf(s policy.Step) string {
	switch {
	case !s.Allowed:
		return string(policy.Deny)
	case s.Confirm:
		return string(policy.Confirm)
	default:
		return string(policy.Allow)
	}
}

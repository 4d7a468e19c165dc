package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/policy"
)

func (a *cli) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "policy",
		Short:   "Explain, check and test the policy",
		Example: "  toolroom policy explain --agent fast file:write",
	}
	requireSubcommand(c)
	c.AddCommand(
		a.policyExplainCommand(), a.policyShowCommand(), a.policyCheckCommand(),
		a.policyTestCommand(), a.policyReplayCommand(), a.policyElevateCommand(), a.policyForgetCommand(),
	)
	return c
}

func (a *cli) policyExplainCommand() *cobra.Command {
	var who toolroom.Identity
	var given string
	c := &cobra.Command{
		Use:   "explain ID [ARGUMENTS]",
		Short: "Show which rule decides a call, and why",
		Long: `Show which rule decides a call, and why. With arguments, given as for toolroom call, the
rules about arguments and effects are evaluated too, and the predicted effects are
shown. Nothing is run.`,
		Example: `  toolroom policy explain file:write
  toolroom policy explain file:write path=/etc/hosts
  toolroom policy explain --agent fast --provider ollama web:search --json
  toolroom policy explain shell:exec --arguments '{"command": "git push"}'`,
		Args:              arguments(1, -1),
		ValidArgsFunction: a.complete(toolCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			document := json.RawMessage(given)
			if words := args[1:]; len(words) > 0 {
				if given != "" {
					return usage("use either words or --arguments", "arguments are set twice")
				}
				var err error
				if document, err = a.parseArguments(words, func() (*toolroom.Description, error) { return describeAny(ctx, r, args[0]) }); err != nil {
					return err
				}
			}
			if err := r.CheckEnvironment(who.Environment); err != nil {
				return err
			}
			explained, err := r.Explain(ctx, args[0], who, document)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(explained)
			}
			if err := a.printDecision(args[0], who, explained.Decision); err != nil {
				return err
			}
			if explained.Unknown {
				a.screen.say("no source has %s now, so its hints and tags are unknown", args[0])
				if _, err := r.Parts().Runner.Catalog.Resolve(args[0], nil); err != nil {
					a.screen.say("%s", toolroom.AsError(err).Hints())
				}
			}
			if explained.NeedsSandbox {
				a.screen.say("%s does not run in a sandbox: its calls are refused (sandbox_unavailable)", args[0])
			}
			if explained.Answered != "" {
				if err := a.screen.printf("no approval is needed: grant %s covers the call; remove it with toolroom approve rules --remove %s\n", explained.Answered, explained.Answered); err != nil {
					return err
				}
			}
			if len(document) == 0 {
				return nil
			}
			return a.printEffects(explained.Effects)
		}),
	}
	f := c.Flags()
	f.StringVar(&who.Subject, "subject", "", "for this person, service or token (default: you)")
	f.StringVar(&who.Agent, "agent", "", "for this agent")
	f.StringVar(&who.Provider, "provider", "", "for this model provider")
	f.StringVar(&who.Skill, "skill", "", "for a call within this skill")
	f.StringVar(&who.Set, "set", "", "for a caller of this tool set")
	f.StringVar(&who.Environment, "env", "", "for a call in this environment (default prod)")
	f.StringSliceVar(&who.Groups, "team", nil, "for a member of this group (may be repeated)")
	f.StringVar(&given, "arguments", "", "for a call with these arguments, a JSON object")
	a.jsonFlag(c, "print JSON")
	return c
}

// describeAny describes a tool, even if policy denies it to the operator.
func describeAny(ctx context.Context, r *app.App, tool string) (*toolroom.Description, error) {
	d, err := r.DescribeFor(ctx, toolroom.Call{Tool: tool}, toolroom.LevelSchema, toolroom.FormCLI)
	if toolroom.CodeOf(err) != toolroom.CodeDenied {
		return d, err
	}
	known := r.Parts().Runner.Catalog
	e, err := known.Resolve(tool, nil)
	if err != nil {
		return nil, err
	}
	return known.Describe(ctx, e, toolroom.LevelSchema, toolroom.FormCLI)
}

func (a *cli) printDecision(tool string, who toolroom.Identity, d policy.Decision) error {
	because := ""
	if d.Because != (toolroom.Effect{}) {
		because = ", because it " + d.Because.String()
	}
	if err := a.screen.printf("%s for %s: %s, by %s%s\n", tool, who, d.Effect, d.Rule, because); err != nil {
		return err
	}
	if d.Isolation != "" {
		if err := a.screen.printf("runs only in %s or stronger\n", d.Isolation); err != nil {
			return err
		}
	}
	if d.Engine != "" {
		if err := a.screen.printf("runs only on %s\n", d.Engine); err != nil {
			return err
		}
	}
	rows := make([][]string, len(d.Steps))
	for i, s := range d.Steps {
		rows[i] = []string{s.Layer, string(s.Effect), s.Rule}
	}
	if err := a.screen.table([]string{"LAYER", "SAYS", "RULE"}, rows); err != nil {
		return err
	}
	if err := a.printEffectRules(d.Rules); err != nil {
		return err
	}
	if d.Effect == toolroom.VerdictAllow {
		return nil
	}
	for _, hint := range [...]string{d.Hint, d.CLIHint} {
		if hint != "" && !strings.Contains(hint, "toolroom policy explain ") { // which this is
			a.screen.say("  try: %s", hint)
		}
	}
	return nil
}

// printEffectRules prints how the rules about effects are enforced for a call.
func (a *cli) printEffectRules(rules []policy.EffectRule) error {
	if len(rules) == 0 {
		return nil
	}
	rows := make([][]string, len(rules))
	for i, r := range rules {
		rows[i] = []string{r.Rule, r.Describe()}
	}
	return a.screen.table([]string{"RULE ABOUT EFFECTS", "HOLDS"}, rows)
}

// printEffects prints the predicted effects of a call.
func (a *cli) printEffects(effects []toolroom.Effect) error {
	if len(effects) == 0 {
		return a.screen.printf("the effects of this call are unknown\n")
	}
	for _, e := range effects {
		if err := a.screen.printf("it %s\n", e); err != nil {
			return err
		}
	}
	return nil
}

func (a *cli) policyForgetCommand() *cobra.Command {
	var caller, reason string
	c := &cobra.Command{
		Use:   "forget [SESSION]",
		Short: "Clear the taint labels of a session",
		Long: `Clear the taint labels of a session. A session keeps the labels of everything that it
has read (policy.taint). Clear them only when the model's context no longer holds any of
that content. Without SESSION, it clears the labels of clients that name no session.
The change is recorded.`,
		Example: `  toolroom policy forget s_41 --caller ann --reason "began anew"`,
		Args:    arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if reason == "" {
				return usage("toolroom policy forget SESSION --reason TEXT", "a reason is required; it is recorded")
			}
			session := ""
			if len(args) > 0 {
				session = args[0]
			}
			labels, err := r.ForgetTaint(ctx, caller, session, a.User, reason)
			if err != nil {
				return err
			}
			for _, m := range labels {
				if err := a.screen.printf("cleared: %s\n", m); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&caller, "caller", operator().Key(), "the caller that owns the session")
	c.Flags().StringVar(&reason, "reason", "", "the reason, which is recorded")
	return c
}

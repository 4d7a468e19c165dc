package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) toolReleaseCommand() *cobra.Command {
	var o release.Order
	var digest string
	c := &cobra.Command{
		Use:   "release TOOL[@VERSION] | SOURCE:*",
		Short: "Make an environment serve a version",
		Long: `Make an environment serve a version, by default the newest. A release to any environment
but test must meet the gates: the saved cases succeed, and no schema breaks a caller.
--force releases anyway, and is recorded.

With --weight or --callers, some callers get the version, and the others keep the one that
is served. With --shadow, no caller does: the version runs alongside the served one, if both are
read-only, and toolroom tool shadow shows how their values differ.

If the calls of a version fail more often, or take longer, than those of the one before, the
release is rolled back automatically (releases.rollback in the config).

The definition that a source changed is released in the same way, to prod and to all. With
SOURCE:*, all definitions of the source that wait are released; with --digest only if they
are still those that toolroom tool diff showed.`,
		Example: `  toolroom tool release double --env prod
  toolroom tool release double@3 --weight 10
  toolroom tool release double@3 --callers ann,group:beta
  toolroom tool release double@3 --shadow --ignore /time,/items/*/id
  toolroom tool release double --force --reason "customers were told"
  toolroom tool release github:create_issue@3
  toolroom tool release 'github:*' --digest 3fa9c1d2b7e0`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if name, ok := sourceOfAll(args); ok {
				return a.releaseWaiting(ctx, r, name, digest, o)
			}
			if digest != "" {
				return usage("toolroom tool release 'github:*' --digest "+digest, "--digest is for all definitions of a source")
			}
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			o.Tool, o.Version = tool, number
			moved, err := s.Release(ctx, o, a.author())
			return a.reportMove(moved, err)
		}),
	}
	f := c.Flags()
	f.StringVar(&o.Environment, "env", release.Prod, "environment")
	f.IntVar(&o.Weight, "weight", 0, "percentage of callers that get the version; the others keep the one that is served")
	f.StringSliceVar(&o.Callers, "callers", nil, "subjects, or group:NAME, that get the version")
	f.BoolVar(&o.Shadow, "shadow", false, "run the version alongside the served one and compare the values")
	f.StringSliceVar(&o.Ignore, "ignore", nil, "with --shadow: parts of the value that may differ, such as /time")
	f.BoolVar(&o.Force, "force", false, "release even if a gate is not met")
	f.StringVar(&o.Reason, "reason", "", "why; kept in the log")
	f.StringVar(&digest, "digest", "", "with SOURCE:*: the digest that toolroom tool diff printed")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) reportMove(m release.Moved, err error) error {
	if err != nil {
		return err
	}
	return show(a, m, a.printMove)
}

func (a *cli) printMove(m release.Moved) error {
	switch {
	case m.Quarantined != "":
		a.screen.say("version %d of %s is released to %s, instead of version %d, but cannot be called now: %s", m.Version, m.Tool, m.Environment, m.Previous, m.Quarantined)
	case m.Canary > 0 && m.Shadow:
		a.screen.say("in %s, version %d of %s runs beside version %d, which answers; see what differs: toolroom tool shadow %s --env %s", m.Environment, m.Canary, m.Tool, m.Version, m.Tool, m.Environment)
	case m.Canary > 0:
		a.screen.say("%s serves version %d of %s to %s, and version %d to the others", m.Environment, m.Canary, m.Tool, m.CanaryRule.String(), m.Version)
	case m.Version == 0:
		a.screen.say("%s no longer serves %s; to serve it again: toolroom tool release %s@%d --env %s", m.Environment, m.Tool, m.Tool, m.Previous, m.Environment)
	case m.Version == m.Previous:
		a.screen.say("%s serves version %d of %s", m.Environment, m.Version, m.Tool)
	case m.Previous == 0:
		a.screen.say("%s serves version %d of %s from now on", m.Environment, m.Version, m.Tool)
	default:
		a.screen.say("%s serves version %d of %s from now on, instead of version %d", m.Environment, m.Version, m.Tool, m.Previous)
	}
	if len(m.Forced) > 0 {
		a.screen.say("forced in spite of: %s", strings.Join(m.Forced, ", "))
	}
	return nil
}

func (a *cli) toolPromoteCommand() *cobra.Command {
	var from, to string
	var force bool
	c := &cobra.Command{
		Use:     "promote TOOL",
		Short:   "Promote a version to another environment",
		Example: "  toolroom tool promote double --from test --to prod",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			moved, err := s.Promote(ctx, tool, number, from, to, force, a.author())
			return a.reportMove(moved, err)
		}),
	}
	f := c.Flags()
	f.StringVar(&from, "from", release.Test, "environment that serves the version")
	f.StringVar(&to, "to", release.Prod, "environment to release to")
	f.BoolVar(&force, "force", false, "release even if a gate is not met")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) toolRollbackCommand() *cobra.Command {
	var environment, reason string
	var to int
	var all bool
	c := &cobra.Command{
		Use:        "rollback TOOL",
		SuggestFor: removalWords,
		Short:      "Undo the last release to an environment",
		Long: `Make an environment serve the version that it served before the last release. Before
the first release it served none. If a canary is running, only the canary ends.

With --all, the environment no longer serves any version. A tool is never deleted: its
receipts and cases refer to its versions.

A source serves only the definition that it has now. So after the rollback of a tool of a
source, the tool is quarantined until the source offers the earlier definition again, or a
person releases the one that it offers.`,
		Example: `  toolroom tool rollback double
  toolroom tool rollback double --to 2 --reason "wrong rounding"
  toolroom tool rollback double --all`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			var moved release.Moved
			switch to := cmp.Or(to, number); {
			case all && to != 0:
				return usage("toolroom tool rollback "+tool+" --all", "--all goes back to no version, so it takes none")
			case all:
				moved, err = s.RollbackAll(ctx, tool, environment, reason, a.author())
			default:
				moved, err = s.Rollback(ctx, tool, environment, to, reason, a.author())
			}
			if err == nil && moved.Version == moved.Previous && !a.asJSON {
				a.screen.say("%s serves version %d of %s to all; its canary or shadow has ended", moved.Environment, moved.Version, moved.Tool)
				return nil
			}
			return a.reportMove(moved, err)
		}),
	}
	f := c.Flags()
	f.StringVar(&environment, "env", release.Prod, "environment")
	f.IntVar(&to, "to", 0, "version to go back to (default: the one before)")
	f.BoolVar(&all, "all", false, "undo all releases: the environment serves no version")
	f.StringVar(&reason, "reason", "", "why; kept in the log")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) toolDeprecateCommand() *cobra.Command {
	var reason string
	var undo bool
	c := &cobra.Command{
		Use:     "deprecate TOOL@VERSION",
		Short:   "Deprecate a version",
		Example: "  toolroom tool deprecate double@1 --reason \"wrong for negative numbers\"",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			if number == 0 {
				return usage("toolroom tool deprecate "+args[0]+"@1", "name the version")
			}
			if err := s.Deprecate(ctx, tool, number, reason, undo, a.author()); err != nil {
				return err
			}
			if undo {
				a.screen.say("version %d of %s is a draft again", number, tool)
			} else {
				a.screen.say("version %d of %s is deprecated", number, tool)
			}
			return nil
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why; shown to whoever tries to release it")
	c.Flags().BoolVar(&undo, "undo", false, "make it a draft again")
	return c
}

func (a *cli) toolLogCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:   "log [TOOL]",
		Short: "Show who pushed and released what, and when",
		Args:  arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool := r.Parts().Releases, ""
			if len(args) > 0 {
				var err error
				if s, tool, _, err = findTool(ctx, r, args[0]); err != nil {
					return err
				}
			}
			log, err := s.Store.ReleaseLog(ctx, tool, -1)
			if err == nil {
				log, err = pageOf(a, &p, log, func(e release.Entry) string { return fmt.Sprint(e.Seq) })
			}
			if err != nil {
				return err
			}
			return showList(a, log, "", []string{"TIME", "WHO", "ACTION", "TOOL", "VERSION", "WHY"}, logRow)
		}),
	}
	p.flags(c, 50)
	a.jsonFlag(c, "print JSON")
	return c
}

func logRow(e release.Entry) []string {
	what := fmt.Sprint(e.Version)
	if e.Environment != "" {
		what = fmt.Sprintf("%s: %d → %d", e.Environment, e.Previous, e.Version)
	}
	if e.Canary > 0 && e.Shadow {
		what += fmt.Sprintf(", %d as a shadow", e.Canary)
	} else if e.Canary > 0 {
		what += fmt.Sprintf(", %d to %s", e.Canary, e.CanaryRule.String())
	}
	reason := e.Reason
	if len(e.Forced) > 0 {
		reason = strings.TrimSpace("forced (" + strings.Join(e.Forced, ", ") + ") " + reason)
	}
	return []string{formatTime(e.Time), e.Who, string(e.Action), e.Tool, what, reason}
}

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/policy"
)

func (a *cli) policyElevateCommand() *cobra.Command {
	var e policy.Elevation
	var lasts time.Duration
	var end string
	c := &cobra.Command{
		Use:   "elevate [SUBJECT]",
		Short: "Grant or list temporary access to sensitive tools",
		Long: `Allow an identity to call the tools under tools.sensitive for a limited time.
Without SUBJECT, list current elevations. An elevation changes nothing else: a call
that a layer or rule denies stays denied. The identity of this command line is
local.`,
		Example: `  toolroom policy elevate ann --for 30m --tool shell.exec --reason "release 1.4"
  toolroom policy elevate
  toolroom policy elevate --end elv_k3j2h4`,
		Args: arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			switch {
			case end != "" && len(args) > 0:
				return usage("toolroom policy elevate --end ID", "--end takes no other flags or arguments")
			case end != "":
				end, err := elevationID(ctx, r, end)
				if err != nil {
					return err
				}
				if err := r.EndElevation(ctx, end); err != nil {
					return err
				}
				return a.screen.printf("ended %s\n", end)
			case len(args) == 0:
				return a.listElevations(ctx, r)
			}
			e.Subject, e.By = args[0], a.User
			granted, err := r.Elevate(ctx, e, lasts)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(granted)
			}
			return a.screen.printf("%s: %s may call %s until %s\n", granted.ID, granted.Subject, elevatedTools(granted), formatTime(granted.Expires))
		}),
	}
	f := c.Flags()
	f.DurationVar(&lasts, "for", policy.DefaultElevation, "how long, at most "+policy.MaxElevation.String())
	f.StringSliceVar(&e.Tools, "tool", nil, "only these tools; a pattern (may be repeated)")
	f.StringVar(&e.Agent, "agent", "", "only while it acts as this agent")
	f.StringVar(&e.Reason, "reason", "", "the reason, which is recorded")
	f.StringVar(&end, "end", "", "end this elevation")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) listElevations(ctx context.Context, r *app.App) error {
	list, err := r.Elevations(ctx)
	if err != nil {
		return err
	}
	short := a.screen.shortIDs(textsOf(list, func(e *policy.Elevation) string { return e.ID }))
	return showList(a, list, "There are no elevations.", []string{"ELEVATION", "SUBJECT", "AGENT", "TOOLS", "LEFT", "BY", "REASON"}, func(e *policy.Elevation) []string {
		return []string{short[e.ID], e.Subject, e.Agent, elevatedTools(e), time.Until(e.Expires).Round(time.Second).String(), e.By, e.Reason}
	})
}

func elevatedTools(e *policy.Elevation) string {
	if len(e.Tools) == 0 {
		return "all sensitive tools"
	}
	return strings.Join(e.Tools, ", ")
}

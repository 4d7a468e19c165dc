package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/nearest"
)

func (a *cli) approveRulesCommand() *cobra.Command {
	var remove string
	var asJSON bool
	c := &cobra.Command{
		Use:   "rules",
		Short: "List or remove grants: approvals for more than one call",
		Example: `  toolroom approve rules
  toolroom approve rules --remove apg_k3j2h4`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			grants, err := r.Grants(ctx)
			if err != nil {
				return err
			}
			if remove != "" {
				if remove, err = nearest.ID(remove, idsOf(grants, func(g *toolroom.Grant) string { return g.ID })); err != nil {
					return err
				}
				if err := r.RemoveGrant(ctx, remove); err != nil {
					return err
				}
				return a.screen.printf("removed grant %s; its calls need approval again\n", remove)
			}
			slices.Reverse(grants) // newest first
			switch {
			case asJSON:
				return a.screen.json(orEmpty(grants))
			case len(grants) == 0:
				a.screen.say("There are no grants.")
				return nil
			}
			return a.printGrants(grants)
		}),
	}
	c.Flags().StringVar(&remove, "remove", "", "remove this grant")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *cli) printGrants(grants []*toolroom.Grant) error {
	rows := make([][]string, len(grants))
	for i, g := range grants {
		until := "removed"
		if !g.Expires.IsZero() {
			until = when(g.Expires)
		}
		rows[i] = []string{g.ID, g.Tool, g.Identity.String(), string(g.Scope), g.By, when(g.Created), until}
	}
	return a.screen.table([]string{"RULE", "TOOL", "CALLER", "FOR", "BY", "SINCE", "UNTIL"}, rows)
}

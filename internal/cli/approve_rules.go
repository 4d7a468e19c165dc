package cli

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/nearest"
)

func (a *cli) approveRulesCommand() *cobra.Command {
	var remove string
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
				if remove, err = nearest.ID(remove, textsOf(grants, func(g *toolroom.Grant) string { return g.ID })); err != nil {
					return err
				}
				if err := r.RemoveGrant(ctx, remove); err != nil {
					return err
				}
				return a.screen.printf("removed grant %s; its calls need approval again\n", remove)
			}
			slices.Reverse(grants) // newest first
			return showList(a, grants, "There are no grants.", []string{"RULE", "TOOL", "CALLER", "FOR", "BY", "SINCE", "UNTIL"}, grantRow)
		}),
	}
	c.Flags().StringVar(&remove, "remove", "", "remove this grant")
	a.jsonFlag(c, "print JSON")
	return c
}

func grantRow(g *toolroom.Grant) []string {
	return []string{g.ID, g.Tool, g.Identity.String(), string(g.Scope), g.By, formatTime(g.Created), cmp.Or(formatTime(g.Expires), "removed")}
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "doctor",
		Short:   "Check that everything Toolroom needs is there and works",
		Example: "  toolroom doctor --json",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, _ []string) error {
			checks := r.Doctor(ctx)
			if asJSON {
				if err := a.screen.json(orEmpty(checks)); err != nil {
					return err
				}
			} else if err := a.printChecks(checks); err != nil {
				return err
			}
			for _, c := range checks {
				if c.Status == "fail" {
					return exitCode(toolroom.ExitError)
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

func (a *app) printChecks(checks []room.Check) error {
	rows := make([][]string, len(checks))
	for i, c := range checks {
		text := c.Detail
		if c.Fix != "" {
			text += "; try: " + c.Fix
		}
		rows[i] = []string{c.Status, c.Name, text}
	}
	return a.screen.table([]string{"", "CHECK", "DETAIL"}, rows)
}

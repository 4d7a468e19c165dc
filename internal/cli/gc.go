package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

func (a *cli) gcCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "gc",
		Short: "Clean up after crashed processes",
		Long: `Remove what crashed or killed Toolroom processes left on this machine: processes,
containers with their tasks and snapshots, sandboxes, cgroups and folders. It only
removes what carries Toolroom's mark and belongs to no running process. A server
does the same when it starts.`,
		Example: `  toolroom gc --dry-run
  toolroom gc --json`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			list, skipped := r.Clean(ctx, dry)
			if a.asJSON {
				if err := a.screen.json(map[string]any{"leftovers": orEmpty(list), "unasked": skipped, "dry_run": dry}); err != nil {
					return err
				}
			} else if err := a.printCleaned(list, skipped, dry); err != nil {
				return err
			}
			if slices.ContainsFunc(list, func(c app.Cleaned) bool { return c.Error != "" }) {
				return exitCode(toolroom.ExitError)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "list what would be removed")
	a.jsonFlag(c, "print JSON")
	return c
}

// printCleaned prints what was removed or found. skipped are the drivers that could not be
// asked, with the reasons.
func (a *cli) printCleaned(list []app.Cleaned, skipped map[string]string, dry bool) error {
	rows := make([][]string, 0, len(list))
	for _, c := range list {
		state := "removed"
		switch {
		case c.Error != "":
			state = "failed: " + c.Error
		case dry:
			state = "found"
		}
		rows = append(rows, []string{c.Driver, c.Kind, c.Name, state})
	}
	if len(rows) == 0 {
		if err := a.screen.text("Nothing to clean up."); err != nil {
			return err
		}
	} else if err := a.screen.table([]string{"DRIVER", "KIND", "NAME", ""}, rows); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(skipped)) {
		a.screen.say("%s was skipped: %s", name, skipped[name])
	}
	return nil
}

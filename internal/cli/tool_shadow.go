package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) toolShadowCommand() *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "shadow TOOL[@VERSION]",
		Short: "Show how a shadow's values differ",
		Long: `Show how a shadow compares with the served version: how many values were the same, and
where the others differ.`,
		Example: "  toolroom tool release double@3 --shadow\n  toolroom tool shadow double",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			report, err := s.ShadowReport(ctx, tool, environment, number)
			if err != nil {
				return err
			}
			return show(a, report, a.printShadow)
		}),
	}
	c.Flags().StringVar(&environment, "env", release.Prod, "environment")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printShadow(r *release.ShadowReport) error {
	total := 0
	var parts []string
	for _, outcome := range []string{release.ShadowSame, release.ShadowDifferent, release.ShadowFailed, release.ShadowFixed, release.ShadowSkipped} {
		if n := r.Outcomes[outcome]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	if total == 0 {
		a.screen.say("version %d of %s has not run as a shadow in %s yet", r.Version, r.Tool, r.Environment)
		return nil
	}
	a.screen.say("version %d of %s beside version %d in %s: %s: %s", r.Version, r.Tool, r.Base, r.Environment, count(total, "run"), strings.Join(parts, ", "))
	if r.Median > 0 {
		a.screen.say("median run time of the calls that both answered: %s with version %d, %s with version %d", formatDuration(r.Median), r.Version, formatDuration(r.BaseMedian), r.Base)
	}
	rows := make([][]string, len(r.Differing))
	for i, one := range r.Differing {
		rows[i] = []string{one.Call, formatTime(one.Time), one.Outcome, strings.Join(one.Differences, "; ")}
	}
	if len(rows) == 0 {
		return nil
	}
	return a.screen.table([]string{"CALL", "TIME", "OUTCOME", "DIFFERENCES"}, rows)
}

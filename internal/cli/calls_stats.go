package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/receipt"
)

func (a *cli) callsStatsCommand() *cobra.Command {
	var filter callFilter
	var by string
	var every time.Duration
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show rates and times of calls",
		Long: `Show how many calls there were, how they ended, and how long they waited and ran. The
numbers come from receipts. Test runs, shadow runs and replays are left out, unless
--via names them.

Quantiles are exact for up to 100,000 calls; of more they are marked with ~ and differ
from the true ones by at most 1%.`,
		Example: `  toolroom calls stats --since 24h --per tool
  toolroom calls stats --tool fn:double --per version
  toolroom calls stats --since 6h --every 1h --json`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			if by != "" {
				if err := oneOf("--per", by, receipt.Groupings()...); err != nil {
					return err
				}
			}
			q, err := filter.query()
			if err != nil {
				return err
			}
			stats, err := receipt.StatsOf(ctx, r, receipt.StatsQuery{ReceiptQuery: q, By: by, Step: every}, time.Now())
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(stats)
			}
			if err := a.printStats(stats); err != nil || stats.Total.Calls > 0 {
				return err
			}
			return a.suggestFilters(ctx, r, filter)
		}),
	}
	filter.flags(a, c, "24h")
	f := c.Flags()
	f.StringVar(&filter.by, "by", "", "only calls of this subject; local is the operator")
	f.StringVar(&by, "per", "", "group by tool, version, environment, caller or via")
	f.DurationVar(&every, "every", 0, "show each interval of this length, such as 1h")
	a.jsonFlag(c, "print JSON")
	completeValues(c, "per", receipt.Groupings()...)
	return c
}

func (a *cli) printStats(s *receipt.Stats) error {
	rows := [][]string{statsRow("all", s.Total)}
	for _, g := range s.Groups {
		name := g.Key
		if name == "" {
			name = "-"
		}
		rows = append(rows, statsRow(name, g))
	}
	for _, g := range s.Series {
		rows = append(rows, statsRow(formatTime(g.Time), g))
	}
	headers := []string{"CALLS OF", "NUMBER", "PER SECOND", "SUCCESS", "FAILED", "DENIED", "QUEUE P50", "RUN P50", "P90", "P99", "MAX"}
	if room := a.screen.width(); room > 0 && room < 100 && !a.screen.wide {
		shorten := func(row []string) []string { return slices.Delete(slices.Delete(row, 8, 9), 6, 7) } // P90 and QUEUE P50
		headers = shorten(headers)
		for i := range rows {
			rows[i] = shorten(rows[i])
		}
	}
	return a.screen.table(headers, rows)
}

func statsRow(name string, g receipt.Group) []string {
	success := "-"
	if g.Success != nil {
		success = fmt.Sprintf("%.1f%%", *g.Success*100)
	}
	about := ""
	if !g.Run.Exact {
		about = "~"
	}
	failed := g.Statuses[toolroom.StatusError] + g.Statuses[toolroom.StatusTimeout]
	return []string{
		name, fmt.Sprint(g.Calls), fmt.Sprintf("%.3g", g.PerSecond), success, fmt.Sprint(failed), fmt.Sprint(g.Statuses[toolroom.StatusDenied]),
		about + formatDuration(g.Queue.P50), about + formatDuration(g.Run.P50), about + formatDuration(g.Run.P90), about + formatDuration(g.Run.P99), formatDuration(g.Run.Max),
	}
}

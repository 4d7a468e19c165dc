package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli/toolbench"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/install"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) benchToolsCommand() *cobra.Command {
	var o toolbench.Options
	var plain bool
	c := &cobra.Command{
		Use:   "tools",
		Short: "Measure calls of function tools",
		Long: `Measure calls of function tools, and the plain interpreters and the engines alone for
comparison, all in one run. The tools are pushed to a temporary home. Each value proves
that the call started with fresh state.

Tools with packages need uv and npm, and take numpy, pandas, graceful-fs and
@node-rs/crc32 from their indexes, or from --wheels and --tarballs.`,
		Example: `  toolroom bench tools
  toolroom bench tools --no-packages --only javascript --calls 1000
  toolroom bench tools --json`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Calls < 4 || o.Calls > 1_000_000 {
				return usage(c.UseLine(), "--calls must be 4 to 1000000")
			}
			for _, language := range o.Only {
				if language != "python" && language != "javascript" {
					return usage(c.UseLine(), "--only measures python and javascript, not %q", language)
				}
			}
			o.Packages = !plain
			report, err := a.benchTools(c.Context(), o)
			if err != nil {
				return err
			}
			return show(a, report, a.printToolBench)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Calls, "calls", 400, "calls for each figure")
	f.StringSliceVar(&o.Only, "only", nil, "measure only these: python, javascript")
	f.BoolVar(&plain, "no-packages", false, "leave out tools with packages")
	f.StringVar(&o.Wheels, "wheels", "", "take Python packages from this folder")
	f.StringVar(&o.Tarballs, "tarballs", "", "take npm packages from this folder")
	a.jsonFlag(c, "print JSON")
	return c
}

// warmTime is how long a new server takes to start processes in advance.
const warmTime = 4 * time.Second

// benchTools measures in a home of its own.
func (a *cli) benchTools(ctx context.Context, o toolbench.Options) (report toolbench.Report, err error) {
	home, err := os.MkdirTemp("", "toolroom-bench-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(home)
	// The engines and uv of the user's home, if any are installed.
	if err := os.Symlink(install.Folder(a.home), install.Folder(home)); err != nil {
		return report, err
	}
	r, err := a.open(ctx, app.Options{Home: home, Log: a.log(slog.LevelWarn), Version: a.Version, Helper: a.Helper, Guest: a.Guest})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	r.Start(ctx)
	select {
	case <-time.After(warmTime):
	case <-ctx.Done():
		return report, ctx.Err()
	}
	room := toolbench.Room{
		Push: func(ctx context.Context, name, source, packages string) (engine.Layer, error) {
			return pushForBench(ctx, r, name, source, packages)
		},
		Call: func(ctx context.Context, tool, arguments string) *toolroom.Result {
			return r.Run(ctx, toolroom.Call{Tool: tool, Arguments: []byte(arguments)})
		},
		Engine: r.Engine,
	}
	report, err = toolbench.Run(ctx, room, o, a.screen.progress)
	a.screen.progress("")
	return report, err
}

func pushForBench(ctx context.Context, r *app.App, name, source, packages string) (engine.Layer, error) {
	releases := r.Parts().Releases
	pushed, err := releases.Push(ctx, release.Upload{Files: map[string]string{name: source}, File: name, Base: -1, Wheels: packages, Tarballs: packages}, "bench")
	if err != nil {
		return engine.Layer{}, err
	}
	if _, err := releases.Release(ctx, release.Order{Tool: pushed[0].Tool}, "bench"); err != nil {
		return engine.Layer{}, err
	}
	return r.Layer(&pushed[0].Spec), nil
}

func (a *cli) printToolBench(report toolbench.Report) error {
	ms := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	var rows [][]string
	for _, r := range report.Rows {
		goal, met := "", ""
		if r.GoalP50 > 0 {
			goal = fmt.Sprintf("p50 %g", r.GoalP50)
			if r.GoalP99 > 0 {
				goal += fmt.Sprintf(", p99 %g", r.GoalP99)
			}
			if met = "missed"; r.Met() {
				met = "met"
			}
		}
		rows = append(rows, []string{r.Name, fmt.Sprint(r.Calls), ms(r.Least), ms(r.P50), ms(r.P99), goal, met})
	}
	if err := a.screen.table([]string{"MS", "CALLS", "LEAST", "P50", "P99", "GOAL", ""}, rows); err != nil {
		return err
	}
	for _, one := range report.Skipped {
		if err := a.screen.printf("left out: %s\n", one); err != nil {
			return err
		}
	}
	return nil
}

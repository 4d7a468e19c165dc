package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/toolflow"
)

func (a *cli) importToolFlowCommand() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "toolflow FILE | URL",
		Short: "Import the tools of a ToolFlow server",
		Long: `Import tools, versions, releases and statuses from ToolFlow's SQLite file, a dump of
mysqldump, or the HTTP API of a running server. Test runs that give the same value here
become cases. The code is inspected as for toolroom tool push; what cannot be imported is
listed with the reason, and the rest is imported. A second import adds what is new.`,
		Example: `  toolroom import toolflow server/db.sqlite3 --dry-run
  toolroom import toolflow dump.sql
  toolroom import toolflow http://127.0.0.1:8000`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			from := args[0]
			if !strings.Contains(from, "://") {
				from = a.argumentPath(from)
			}
			tools, err := toolflow.Read(ctx, from)
			if err != nil {
				return err
			}
			steps, err := toolflow.Import(ctx, r.Parts().Releases, tools, a.author(), dryRun)
			if a.asJSON {
				if jsonErr := a.screen.json(steps); jsonErr != nil {
					return jsonErr
				}
				return err
			}
			if printErr := a.printImportSteps(steps, len(tools), dryRun); printErr != nil {
				return printErr
			}
			return err
		}),
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show the plan, without changing anything")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printImportSteps(steps []toolflow.Step, tools int, dryRun bool) error {
	rows, skipped := make([][]string, len(steps)), 0
	for i, s := range steps {
		to := s.Tool
		if s.Version > 0 {
			to += fmt.Sprintf("@%d", s.Version)
		}
		if s.Action == toolflow.StepSkip {
			skipped++
		}
		rows[i] = []string{s.Action, s.From, to, oneLine(s.Note)}
	}
	if err := a.screen.table([]string{"ACTION", "TOOLFLOW", "HERE", "NOTE"}, rows); err != nil {
		return err
	}
	a.screen.say("%s read, %s skipped", count(tools, "tool"), count(skipped, "step"))
	if dryRun {
		a.screen.say("nothing was changed")
	}
	return nil
}

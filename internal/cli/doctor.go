package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

func (a *cli) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "doctor",
		Short:   "Check the installation, sources and sandboxes",
		Example: "  toolroom doctor --json",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			done := func() {}
			checks := append(r.Doctor(ctx, func(what string) {
				done()
				done = a.screen.showActivity("checking " + what)
			}), checkListings(r)...)
			done()
			if err := show(a, orEmpty(checks), a.printChecks); err != nil {
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
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printChecks(checks []app.Check) error {
	rows := make([][]string, 0, len(checks))
	for _, c := range checks {
		text := c.Detail
		if c.Fix != "" {
			text += "; try: " + c.Fix
		}
		rows = append(rows, []string{c.Status, c.Name, text})
	}
	if err := a.screen.table([]string{"", "CHECK", "DETAIL"}, rows); err != nil {
		return err
	}
	return a.printMatrix(checks)
}

// printMatrix shows which runtime enforces which limits here, and the reasons for gaps.
func (a *cli) printMatrix(checks []app.Check) error {
	limits := []sandbox.Limit{sandbox.LimitWall, sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitDisk, sandbox.LimitNetwork, sandbox.LimitEgress}
	var rows [][]string
	var gaps []string
	for _, c := range checks {
		r := c.Runtime
		if r == nil || r.State != sandbox.Available {
			continue
		}
		row := []string{r.Name, r.Isolation}
		for _, limit := range limits {
			mark := "yes"
			if _, held := r.Holds[limit]; !held {
				mark = "no"
				whole := ""
				if r.Partly[limit] != "" {
					mark, whole = "partly", " whole"
				}
				if limit == sandbox.LimitEgress && r.Lacks[limit] == "" {
					row = append(row, mark)
					continue // a program without a network needs no restriction of it
				}
				gaps = append(gaps, fmt.Sprintf("%s does not enforce %s%s: %s", r.Name, limit, whole, cmp.Or(r.Lacks[limit], "not supported")))
			}
			row = append(row, mark)
		}
		rows = append(rows, append(row, strings.Join(r.Languages, " ")))
	}
	if len(rows) == 0 {
		return nil
	}
	if err := a.screen.text("\n"); err != nil {
		return err
	}
	header := []string{"RUNTIME", "ISOLATION", "WALL", "CPU", "MEMORY", "PIDS", "DISK", "NETWORK", "EGRESS", "LANGUAGES"}
	if err := a.screen.table(header, rows); err != nil {
		return err
	}
	for _, gap := range gaps {
		if err := a.screen.text(gap); err != nil {
			return err
		}
	}
	return nil
}

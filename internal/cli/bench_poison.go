package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/poison/bench"
)

func (a *app) benchPoisonCommand() *cobra.Command {
	var cases string
	var asJSON bool
	c := &cobra.Command{
		Use:   "poison",
		Short: "Measure how well attacks in definitions of tools are found",
		Long: `Measure how well attacks in definitions of tools are found, on the labelled set
that is built in, or on one of your own: one JSON object a line, {"label": "bad"
or "benign", "class", "tool": as MCP defines it, "others": [ids of other tools]}.`,
		Example: "  toolroom bench poison --json",
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			report, err := benchPoison(cases)
			if err != nil {
				return usage("", "%s", err)
			}
			if asJSON {
				return a.screen.json(report)
			}
			return a.printPoison(report)
		},
	}
	c.Flags().StringVar(&cases, "cases", "", "file of cases, one JSON object a line; the set that is built in when empty")
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

func benchPoison(cases string) (bench.Report, error) {
	if cases == "" {
		return bench.Own()
	}
	f, err := os.Open(cases)
	if err != nil {
		return bench.Report{}, err
	}
	defer f.Close()
	return bench.Run(f)
}

func (a *app) printPoison(r bench.Report) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d bad tools, %d benign\nprecision %.3f\nrecall    %.3f\n", r.Bad, r.Benign, r.Precision, r.Recall)
	for _, c := range r.Classes {
		fmt.Fprintf(&out, "  %-7s %-34s %4d of %d reported\n", c.Label, c.Name, c.Reported, c.Tools)
	}
	for _, list := range []struct {
		what string
		all  []string
	}{{"missed", r.Missed}, {"wrong", r.Wrong}} {
		for _, line := range list.all {
			fmt.Fprintf(&out, "%s: %s\n", list.what, oneLine(line))
		}
	}
	return a.screen.printf("%s", out.String())
}

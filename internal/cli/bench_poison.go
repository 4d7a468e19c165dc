package cli

import (
	"errors"
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
that is built in and on a part that the rules were not made with, or on a set of your own: one JSON object a line, {"label": "bad"
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
			if report.HeldOut == nil {
				return a.printPoison(report.Report)
			}
			return errors.Join(
				a.screen.printf("With what the rules were made with: "), a.printPoison(report.Report),
				a.screen.printf("\nWith what they were not made with: "), a.printPoison(*report.HeldOut),
			)
		},
	}
	c.Flags().StringVar(&cases, "cases", "", "file of cases, one JSON object a line; the set that is built in when empty")
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

// poisonReport has the part that is held out where the set is the built-in one.
type poisonReport struct {
	bench.Report
	HeldOut *bench.Report `json:"held_out,omitempty"`
}

func benchPoison(cases string) (r poisonReport, err error) {
	if cases == "" {
		own, ownErr := bench.Own()
		held, heldErr := bench.HeldOut()
		return poisonReport{own, &held}, errors.Join(ownErr, heldErr)
	}
	f, err := os.Open(cases)
	if err != nil {
		return r, err
	}
	defer f.Close()
	r.Report, err = bench.Run(f)
	return r, err
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

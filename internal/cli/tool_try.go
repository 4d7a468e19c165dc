package cli

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) toolTestCommand() *cobra.Command {
	var all bool
	var junit string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "test TOOL[@VERSION] [KEY=VALUE… | '{JSON}'] | --all",
		Short: "Call a version, or run its saved cases",
		Long: `With arguments, call a version, by default the newest, whether it is released or not.
Without arguments, run its saved cases; --all runs those of all tools.`,
		Example: `  toolroom tool test double x=21
  toolroom tool test double@2
  toolroom tool test --all --junit report.xml`,
		Args: arguments(0, -1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			switch {
			case timeout < 0:
				return usage("--timeout 10s", "invalid timeout %v", timeout)
			case timeout > 0 && (all || len(args) == 1):
				return usage("toolroom tool test double x=21 --timeout 10s", "--timeout is for a call with arguments")
			case all && len(args) > 0:
				return usage("toolroom tool test --all", "--all takes no tool")
			case all || len(args) == 1:
				return a.runCases(ctx, r, args, junit)
			case len(args) == 0:
				return usage("toolroom tool test --all", "name a tool, or use --all")
			}
			return a.tryTool(ctx, r, args, timeout)
		}),
	}
	f := c.Flags()
	f.BoolVar(&all, "all", false, "run the cases of all tools")
	f.DurationVar(&timeout, "timeout", 0, "with arguments: time limit, such as 10s")
	f.StringVar(&junit, "junit", "", "write the outcomes of the cases to this file as JUnit XML")
	a.jsonFlag(c, "print the complete result as JSON")
	return c
}

// tryTool calls a version of a tool with arguments, and prints the result.
func (a *cli) tryTool(ctx context.Context, r *app.App, args []string, timeout time.Duration) error {
	s, tool, number, err := findTool(ctx, r, args[0])
	if err != nil {
		return err
	}
	v, err := s.Pick(ctx, tool, number)
	if err != nil {
		return err
	}
	call := toolroom.Call{Surface: "test", Tool: fmt.Sprintf("%s@%d", tool, v.Number), Environment: release.Draft, Timeout: timeout}
	if isDocument(args[1:]) {
		call.Arguments, err = a.documentArguments(strings.TrimSpace(args[1]))
	} else {
		call.Arguments, err = parseWords(args[1:], v.Spec.InputSchema, a.document)
	}
	if err != nil {
		return err
	}
	return a.runCall(ctx, r, call, false)
}

// runCases runs the cases of one tool, or of all.
func (a *cli) runCases(ctx context.Context, r *app.App, args []string, junit string) error {
	s := r.Parts().Releases
	var versions []*release.Version
	if len(args) > 0 {
		_, tool, number, err := findTool(ctx, r, args[0])
		if err != nil {
			return err
		}
		v, err := s.Pick(ctx, tool, number)
		if err != nil {
			return err
		}
		versions = append(versions, v)
	} else {
		list, err := s.List(ctx, release.Filter{Cases: true})
		if err != nil {
			return err
		}
		for _, t := range list {
			v, err := s.Pick(ctx, t.Tool, 0)
			if err != nil {
				return err
			}
			versions = append(versions, v)
		}
	}
	outcomes, err := testAll(ctx, s, versions)
	if err != nil {
		return err
	}
	if len(outcomes) == 0 && len(args) > 0 {
		return toolroom.Errorf(toolroom.CodeNotFound, "%s has no saved cases", versions[0].Tool).
			WithHint("call it: toolroom tool test %s %s; save a case: toolroom tool case add %s NAME KEY=VALUE --expect VALUE", args[0], exampleWords(versions[0].Spec.InputSchema), args[0])
	}
	if junit != "" {
		if err := a.writeJUnit(junit, outcomes); err != nil {
			return err
		}
	}
	if err := show(a, outcomes, a.printCaseOutcomes); err != nil {
		return err
	}
	if slices.ContainsFunc(outcomes, func(o release.Outcome) bool { return !o.OK }) {
		return exitCode(toolroom.ExitFailed)
	}
	return nil
}

func testAll(ctx context.Context, s *release.Service, versions []*release.Version) ([]release.Outcome, error) {
	outcomes := make([][]release.Outcome, len(versions))
	errs := make([]error, len(versions))
	var wg sync.WaitGroup
	for i, v := range versions {
		wg.Go(func() { outcomes[i], errs[i] = s.TestCases(ctx, v) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(outcomes...), nil
}

func (a *cli) printCaseOutcomes(outcomes []release.Outcome) error {
	rows, failed := make([][]string, len(outcomes)), 0
	for i, o := range outcomes {
		word := "ok"
		if !o.OK {
			word, failed = "FAILED", failed+1
		}
		rows[i] = []string{word, fmt.Sprintf("%s@%d", o.Tool, o.Version), o.Case, o.Took.Round(time.Millisecond / 10).String(), oneLine(o.Problem)}
	}
	if len(rows) > 0 {
		if err := a.screen.table([]string{"RESULT", "TOOL", "CASE", "TOOK", "PROBLEM"}, rows); err != nil {
			return err
		}
	}
	switch {
	case len(outcomes) == 0:
		a.screen.say("there are no cases")
	case failed == 0:
		a.screen.say("%s passed", count(len(outcomes), "case"))
	default:
		a.screen.say("%d of %s failed", failed, count(len(outcomes), "case"))
	}
	return nil
}

// writeJUnit writes the outcomes in the format of JUnit, which CI systems read.
func (a *cli) writeJUnit(file string, outcomes []release.Outcome) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testCase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    float64  `xml:"time,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}{Name: "toolroom", Tests: len(outcomes)}
	for _, o := range outcomes {
		one := testCase{Class: o.Tool, Name: o.Case, Time: o.Took.Seconds()}
		if !o.OK {
			suite.Failures++
			one.Failure = &failure{o.Problem}
		}
		suite.Cases = append(suite.Cases, one)
	}
	text, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(a.typedPath(file), append([]byte(xml.Header), append(text, '\n')...), 0o644)
}

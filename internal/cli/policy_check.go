package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy/cedar"
)

func (a *cli) policyCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Report every mistake in layers, skills and Cedar rules",
		Example: `  toolroom policy check
  toolroom policy check --config staging.yaml --json`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			file, err := config.Find(a.configFile, a.Dir, a.UserConfig)
			if err != nil {
				return err
			}
			mistakes, rules, err := checkPolicy(file)
			switch {
			case a.asJSON && (err == nil || mistakes != nil):
				return a.printPolicyMistakes(file, mistakes)
			case err != nil:
				return err
			default:
				return a.screen.printf("%s is valid: %s\n", file, count(rules, "written rule"))
			}
		},
	}
	a.jsonFlag(c, "print JSON")
	return c
}

// checkPolicy returns the mistakes in the config, or else those in the files that it names.
func checkPolicy(file string) ([]cedar.Problem, int, error) {
	c, err := config.Load(file)
	if mistakes, ok := errors.AsType[*config.Errors](err); ok {
		var found []cedar.Problem
		for _, p := range mistakes.Problems {
			reason := p.Reason
			if p.Key != "" {
				reason = p.Key + ": " + reason
			}
			found = append(found, cedar.Problem{File: p.File, Line: p.Line, Column: p.Column, Reason: reason, Hint: p.Hint})
		}
		return found, 0, err
	}
	if err != nil {
		return nil, 0, err
	}
	_, rules, err := app.Policy(c, file)
	var problems *cedar.Problems
	switch {
	case errors.As(err, &problems):
		return problems.Found, 0, err
	case err != nil:
		return []cedar.Problem{{File: file, Line: 1, Column: 1, Reason: err.Error()}}, 0, err
	}
	return nil, rules.Len(), nil
}

func (a *cli) printPolicyMistakes(file string, mistakes []cedar.Problem) error {
	out := struct {
		File     string          `json:"file"`
		OK       bool            `json:"ok"`
		Problems []cedar.Problem `json:"problems"`
	}{file, len(mistakes) == 0, orEmpty(mistakes)}
	if err := a.screen.json(out); err != nil || len(mistakes) == 0 {
		return err
	}
	return exitCode(toolroom.ExitError)
}

func (a *cli) policyShowCommand() *cobra.Command {
	var asCedar, schema bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the whole policy as Cedar",
		Example: `  toolroom policy show --cedar
  toolroom policy show --schema`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if schema {
				return a.screen.printf("%s", cedar.Schema())
			}
			file, err := a.findConfig()
			if err != nil {
				return err
			}
			a.sayUntrusted(file)
			c := config.Default()
			if file != "" {
				if c, err = config.Load(file); err != nil {
					return err
				}
			}
			compiled, rules, err := app.Policy(c, file)
			if err != nil {
				return err
			}
			return a.screen.printf("%s", cedar.Show(compiled.Config(), rules))
		},
	}
	c.Flags().BoolVar(&asCedar, "cedar", true, "as Cedar, the only format")
	c.Flags().BoolVar(&schema, "schema", false, "show the schema that Cedar rules can use instead")
	return c
}

package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom/internal/clients"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
)

func (a *cli) importFlynnCommand() *cobra.Command {
	var dryRun, force bool
	c := &cobra.Command{
		Use:   "flynn FILE",
		Short: "Import the tool policy of a Flynn config",
		Long: `Import profile, allow, deny, agents, providers, hooks, autonomy, sensitive tools
and the immutable denylist from Flynn's YAML. Keys that the config already has are
kept unless --force is given.`,
		Example: `  toolroom import flynn flynn.yaml --dry-run
  toolroom import flynn ~/.config/flynn/config.yaml`,
		Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			found, left, err := clients.FlynnPolicy(a.argumentPath(args[0]))
			if err != nil {
				return err
			}
			file, err := a.editable()
			if err != nil {
				return err
			}
			if !dryRun {
				if err := config.MergeTools(file, found, force, a.keepTrust(file)); err != nil {
					return err
				}
			}
			if a.asJSON {
				return a.screen.json(struct {
					Config  string        `json:"config"`
					Written bool          `json:"written"`
					Tools   policy.Config `json:"tools"`
					Skipped []string      `json:"skipped"`
				}{file, !dryRun, found, orEmpty(left)})
			}
			return a.printFlynn(file, found, left, dryRun)
		},
	}
	f := c.Flags()
	f.BoolVar(&dryRun, "dry-run", false, "show the section, without changing anything")
	f.BoolVar(&force, "force", false, "replace existing keys of the config")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printFlynn(file string, found policy.Config, left []string, dryRun bool) error {
	for _, key := range left {
		a.screen.say("skipped: %s is not a tool policy", key)
	}
	if !dryRun {
		return a.screen.printf("wrote the policy to %s; see it: toolroom policy show\n", file)
	}
	text, err := yaml.Dump(map[string]policy.Config{"tools": found}, yaml.WithIndent(2))
	if err != nil {
		return err
	}
	return a.screen.printf("%s\n", strings.TrimSpace(string(text)))
}

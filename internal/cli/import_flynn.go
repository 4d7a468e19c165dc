package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/imports"
	"github.com/toolroom/toolroom/internal/policy"
)

func (a *app) importFlynnCommand() *cobra.Command {
	var dryRun, force, asJSON bool
	c := &cobra.Command{
		Use:   "flynn FILE",
		Short: "Take over the tool policy of a config of Flynn",
		Long: `Take over profile, allow, deny, agents, providers, hooks, autonomy, sensitive
tools and the immutable denylist from the YAML of Flynn. What the config says
already stays, unless --force is given.`,
		Example: `  toolroom import flynn flynn.yaml --dry-run
  toolroom import flynn ~/.config/flynn/config.yaml`,
		Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			from := args[0]
			if !filepath.IsAbs(from) {
				from = filepath.Join(a.Dir, from)
			}
			found, left, err := imports.FlynnPolicy(from)
			if err != nil {
				return err
			}
			file, err := a.editable()
			if err != nil {
				return err
			}
			if !dryRun {
				if err := config.MergeTools(file, found, force); err != nil {
					return err
				}
			}
			if asJSON {
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
	f.BoolVar(&dryRun, "dry-run", false, "show the section, and change nothing")
	f.BoolVar(&force, "force", false, "replace what the config says already")
	f.BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

func (a *app) printFlynn(file string, found policy.Config, left []string, dryRun bool) error {
	for _, key := range left {
		a.screen.say("left out: %s is no policy of tools", key)
	}
	if !dryRun {
		return a.screen.printf("The policy is in %s. See it: toolroom policy show\n", file)
	}
	text, err := yaml.Dump(map[string]policy.Config{"tools": found}, yaml.WithIndent(2))
	if err != nil {
		return err
	}
	return a.screen.printf("%s\n", strings.TrimSpace(string(text)))
}

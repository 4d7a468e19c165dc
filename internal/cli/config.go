package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/server"
)

func (a *cli) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "config",
		Short:   "Check the config",
		Example: "  toolroom config check",
	}
	requireSubcommand(c)
	c.AddCommand(a.configCheckCommand())
	return c
}

func (a *cli) configCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Report every mistake in the config, offline",
		Example: `  toolroom config check
  toolroom config check --config staging.yaml --json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			// A running server knows which keys it has started with.
			if done, err := a.runInServer(cmd.Context(), cmd.CommandPath(), args); done {
				return err
			}
			file, err := config.Find(a.configFile, a.Dir, a.UserConfig)
			if err != nil {
				return err
			}
			c, err := config.Load(file)
			if err == nil {
				_, _, policyErr := app.Policy(c, file)
				err = errors.Join(app.CheckConfig(c), server.CheckConfig(c), policyErr)
			}
			trusted := a.sayUntrusted(file)
			if err == nil && !a.asJSON {
				for _, s := range c.PlainSecrets() {
					a.screen.say("warning: %s seems to hold a secret in plain text\n  try: %s", s.Key, s.Fix)
				}
				for _, m := range app.FindMissing(c, file) {
					a.screen.say("warning: %s: %s\n  %s", m.Key, m.Reason, m.Hint)
				}
			}
			var unmatched []app.Unmatched
			if err == nil && trusted {
				unmatched = a.unmatchedRules(cmd.Context(), file)
			}
			if !a.asJSON && err == nil {
				for _, u := range unmatched {
					a.screen.say("warning: %s\n  %s", u, u.Hint())
				}
				if err := a.screen.printf("%s is valid\n", file); err != nil {
					return err
				}
				return a.sayRestart(a.needsRestart(c))
			}
			var mistakes *config.Errors
			if !a.asJSON || err != nil && !errors.As(err, &mistakes) {
				return err
			}
			return a.printMistakes(file, trusted, mistakes, c, unmatched, a.needsRestart(c))
		},
	}
	a.jsonFlag(c, "print JSON")
	return c
}

// needsRestart returns the keys of a valid config that the running server applies only
// after a restart.
func (a *cli) needsRestart(c *config.Config) []string {
	if a.shared == nil || c == nil {
		return nil
	}
	return a.shared.NeedsRestart(c)
}

// unmatchedRules returns the patterns of rules that select no tool. It uses the tools that are
// known from earlier lists, and starts no source.
func (a *cli) unmatchedRules(ctx context.Context, file string) []app.Unmatched {
	home := a.home
	if _, err := os.Stat(home); home == "" || err != nil {
		var err error
		if home, err = os.MkdirTemp("", "toolroom-check-"); err != nil {
			return nil
		}
		defer os.RemoveAll(home)
	}
	o := a.options(file, slog.LevelError)
	o.Home, o.Log = home, slog.New(slog.DiscardHandler)
	r, err := a.open(ctx, o)
	if err != nil {
		return nil // the config is valid; the commands that use it say why it does not open
	}
	defer r.Close()
	return r.Unmatched()
}

// printMistakes prints the outcome of a check as JSON.
func (a *cli) printMistakes(file string, trusted bool, mistakes *config.Errors, c *config.Config, unmatched []app.Unmatched, restart []string) error {
	type problem struct {
		Line   int    `json:"line"`
		Column int    `json:"column"`
		Key    string `json:"key,omitempty"`
		Reason string `json:"reason"`
		Hint   string `json:"hint,omitempty"`
	}
	type warning struct {
		Key    string `json:"key"`
		Reason string `json:"reason"`
		Hint   string `json:"hint"`
	}
	out := struct {
		File string `json:"file"`
		OK   bool   `json:"ok"`
		// Trusted is false if the config does not count until it is trusted. Then rules are
		// not compared with the tools that there are.
		Trusted  bool      `json:"trusted"`
		Problems []problem `json:"problems"`
		Warnings []warning `json:"warnings,omitempty"`
		// Restart are the keys that the running server applies only after a restart.
		Restart []string `json:"restart,omitempty"`
	}{File: file, Trusted: trusted, Restart: restart, OK: mistakes == nil, Problems: []problem{}}
	if c != nil {
		for _, s := range c.PlainSecrets() {
			out.Warnings = append(out.Warnings, warning{s.Key, "it seems to hold a secret in plain text", s.Fix})
		}
		for _, m := range app.FindMissing(c, file) {
			out.Warnings = append(out.Warnings, warning{m.Key, m.Reason, m.Hint})
		}
	}
	for _, u := range unmatched {
		out.Warnings = append(out.Warnings, warning{u.Key, fmt.Sprintf("%q matches no tool", u.Pattern), u.Hint()})
	}
	if mistakes != nil {
		for _, p := range mistakes.Problems {
			out.Problems = append(out.Problems, problem{p.Line, p.Column, p.Key, p.Reason, p.Hint})
		}
	}
	if err := a.screen.json(out); err != nil || mistakes == nil {
		return err
	}
	return exitCode(toolroom.ExitError)
}

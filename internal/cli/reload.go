package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
)

func (a *cli) reloadCommand() *cobra.Command {
	var trusted bool
	c := &cobra.Command{
		Use:   "reload",
		Short: "Reload the running server's config",
		Long: `Reload the config of the running server of this home, and show which changes take
effect now and which need a restart. The server also reloads the config by itself when
the file changes.`,
		Example: `  toolroom reload
  toolroom reload --json`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, args []string) error {
			if done, err := a.runInServer(c.Context(), c.CommandPath(), args); done {
				return err
			}
			if a.reload == nil {
				return a.noServerError()
			}
			out, err := a.reload()
			switch nothing := len(out.Changed) == 0 && len(out.Restart) == 0; {
			case err != nil:
				return err
			case a.asJSON:
				return a.screen.json(out)
			case nothing && trusted:
				// The server may have seen the trust before this command did.
				return a.screen.printf("the running server uses %s now\n", out.File)
			case nothing:
				return a.screen.printf("%s is in force; nothing has changed\n", out.File)
			case len(out.Changed) > 0:
				if err := a.screen.printf("in force now: %s\n", strings.Join(out.Changed, ", ")); err != nil {
					return err
				}
			}
			return a.sayRestart(out.Restart)
		},
	}
	a.jsonFlag(c, "print JSON")
	c.Flags().BoolVar(&trusted, "trusted", false, "after the file was trusted")
	_ = c.Flags().MarkHidden("trusted")
	return c
}

// noServerError returns the error of a command that needs the running server and found none.
func (a *cli) noServerError() error {
	if file, err := a.findConfig(); err != nil {
		return err
	} else if file != "" {
		if _, err := config.LoadVerified(file, a.verifier(file)); err != nil {
			return err
		}
	}
	return toolroom.Errorf(toolroom.CodeNotFound, "no server of this home and config runs").
		WithCLIHint("start one: toolroom serve; or name its home and config: --home, --config")
}

// sayRestart prints the keys of the config whose changes apply only after a restart.
func (a *cli) sayRestart(keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return a.screen.printf("after a restart of the server: %s\n", strings.Join(keys, ", "))
}

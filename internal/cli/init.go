package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
)

func (a *cli) initCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a starter config",
		Example: `  toolroom init
  toolroom init --config ~/.config/toolroom/toolroom.yaml --force`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			file := cmp.Or(a.configFile, filepath.Join(a.Dir, config.FileName))
			if a.needsTrust(file) && !a.relativeHome { // the home then records that the file is trusted
				if err := app.MakeHome(a.home); err != nil {
					return err
				}
			}
			if err := config.Init(file, force, a.keepTrust(file)); err != nil {
				return err
			}
			if err := a.screen.printf("wrote %s\n", file); err != nil {
				return err
			}
			a.screen.say("%s", firstSteps)
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing config")
	return c
}

// editable returns the config file that sources are added to. It may not exist yet.
func (a *cli) editable() (string, error) {
	file, err := config.Find(a.configFile, a.Dir, a.UserConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return file, os.MkdirAll(filepath.Dir(file), 0o755)
	}
	return file, err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/backup"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

func (a *cli) backupCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the home and the config to one file",
		Long: `Write the state of the home and the config to one file (a .tar.gz): receipts, tokens,
approvals, secrets with their key, released tools with their packages, sessions and
artifacts. A server may run meanwhile; the database is a consistent copy. The file is
readable by you alone: keep it as safe as the home.`,
		Example: `  toolroom backup toolroom.tar.gz
  toolroom backup /backup/toolroom-$(date +%F).tar.gz --json`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.inRoom(c.Context(), func(r *app.App) error {
				file, err := a.absPath(args[0])
				if err != nil {
					return err
				}
				done := a.screen.showActivity("writing the backup")
				m, err := r.Backup(c.Context(), file, force)
				done()
				if err != nil {
					return err
				}
				info, err := os.Stat(file)
				if err != nil {
					return err
				}
				if a.asJSON {
					return a.screen.json(struct {
						File  string `json:"file"`
						Bytes int64  `json:"bytes"`
						backup.Manifest
					}{file, info.Size(), m})
				}
				if r.Config().Secrets.Key != (config.SecretsKey{}) {
					a.screen.say("The key of the secrets is not in the backup: secrets.key names it.")
				}
				for _, left := range m.Missing {
					why := "not below the folder of the config"
					if rel, err := filepath.Rel(filepath.Dir(m.Config), left); err == nil && filepath.IsLocal(rel) {
						why = "hidden"
					}
					a.screen.say("not in the backup: %s, which is %s", left, why)
				}
				return a.screen.printf("wrote %s (%s)\n", args[0], formatSize(info.Size()))
			})
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) restoreCommand() *cobra.Command {
	var force bool
	var store string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup to an empty home",
		Long: `Put the state and the config of a backup in place. The home must be empty; to
move everything, name another home with --home. The config and the files that it
names go to --config and its folder. Nothing is changed unless the whole backup can be
read.

With --force, the earlier entries of the home are moved to a folder in it, and another
config is replaced and kept beside it.`,
		Example: `  toolroom restore toolroom.tar.gz --config toolroom.yaml
  toolroom restore toolroom.tar.gz --home /srv/toolroom --config /etc/toolroom/toolroom.yaml`,
		Args: arguments(1, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if a.home == "" {
				return usage("toolroom restore FILE --home FOLDER", "there is no home to restore to")
			}
			if serverRuns(a.home) {
				return toolroom.Errorf(toolroom.CodeConflict, "a server uses the home %s", a.home).WithHint("stop it, and restore again")
			}
			file, err := a.absPath(args[0])
			if err != nil {
				return err
			}
			place := a.configFile
			if place != "" {
				if place, err = a.absPath(place); err != nil {
					return err
				}
			}
			shown := a.screen.showActivity("restoring the backup")
			done, err := backup.Restore(c.Context(), file, backup.Target{Home: a.home, Config: place, Store: store, Force: force, Check: checkDatabase})
			shown()
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(done)
			}
			return a.printRestored(args[0], done)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the existing state and config, which are kept aside")
	c.Flags().StringVar(&store, "store", "", "where to put the database, if it was outside the home")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printRestored(file string, done backup.Restored) error {
	if done.OldHome != "" {
		a.screen.say("what was in the home is in %s now", done.OldHome)
	}
	if done.OldStore != "" {
		a.screen.say("the earlier database is in %s now", done.OldStore)
	}
	for _, left := range done.Missing {
		a.screen.say("the config needs %s, which is not in the backup", left)
	}
	for _, missing := range missingFolders(done.ConfigFile) {
		a.screen.say("the config needs %s, which is not there", missing)
	}
	if err := a.screen.printf("restored %s of %s (Toolroom %s) to %s\n", file, formatTime(done.Created), done.Version, a.home); err != nil {
		return err
	}
	if done.ConfigFile != "" {
		if filepath.Base(done.ConfigFile) == config.FileName {
			a.screen.say("a config in the working folder must be trusted again: read it, then toolroom trust")
		}
		return a.screen.printf("config: %s\n", done.ConfigFile)
	}
	return nil
}

// missingFolders describes the working folders of a config's sources that do not exist.
func missingFolders(file string) []string {
	if file == "" {
		return nil
	}
	c, err := config.Load(file)
	if err != nil {
		return nil // the next command says so
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		folder := ""
		switch s := c.Sources[name]; {
		case s.MCP != nil:
			folder = s.MCP.Cwd
		case s.CLI != nil:
			folder = s.CLI.Cwd
		}
		if folder == "" || strings.ContainsRune(folder, '$') {
			continue
		}
		if _, err := os.Stat(absolute(filepath.Dir(file), folder)); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, fmt.Sprintf("the folder %s (sources.%s.cwd)", folder, name))
		}
	}
	return missing
}

// absPath returns a typed path as an absolute and clean one.
func (a *cli) absPath(typed string) (string, error) { return filepath.Abs(a.typedPath(typed)) }

// checkDatabase returns an error if the database at path is not one that this Toolroom can
// use.
func checkDatabase(ctx context.Context, path string) error {
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	return store.Close()
}

// serverRuns reports whether a server runs the commands of a home.
func serverRuns(home string) bool {
	path := socketPath(home) + ".lock"
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := flock.New(path)
	free, err := lock.TryLock()
	if free {
		_ = lock.Close()
	}
	return err == nil && !free
}

package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/consent"
)

func (a *cli) trustCommand() *cobra.Command {
	var list, revoke, yes bool
	c := &cobra.Command{
		Use:   "trust [FILE]",
		Short: "Trust the toolroom.yaml of a folder",
		Long: `Show what a toolroom.yaml would start, connect to and set, and trust it. Commands
use the toolroom.yaml of the working folder only if it is trusted. After a change it
must be trusted again. A file named by --config or TOOLROOM_CONFIG, and that of your
own config folder, needs no trust.`,
		Example: `  toolroom trust
  toolroom trust ../other/toolroom.yaml --yes
  toolroom trust --list
  toolroom trust --revoke`,
		Args: arguments(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if list && (revoke || len(args) > 0) {
				return usage("toolroom trust --list", "--list takes neither FILE nor --revoke")
			}
			if err := a.requireOwnHome(); err != nil {
				return err
			}
			if list {
				return a.listTrusted()
			}
			file := filepath.Join(a.Dir, config.FileName)
			if len(args) > 0 {
				file = a.argumentPath(args[0])
				if info, err := os.Stat(file); err == nil && info.IsDir() {
					file = filepath.Join(file, config.FileName)
				}
			}
			if revoke {
				return a.revokeTrust(file)
			}
			return a.trustFile(c, file, yes)
		},
	}
	c.Flags().BoolVar(&list, "list", false, "list the trusted files")
	c.Flags().BoolVar(&revoke, "revoke", false, "stop trusting the file")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	a.jsonFlag(c, "with --list: print JSON")
	return c
}

func (a *cli) trustFile(c *cobra.Command, file string, yes bool) error {
	store := consent.Open(a.home)
	found, _, err := consent.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no %s", file).WithHint("name the file: toolroom trust FILE")
	}
	if err != nil {
		return err
	}
	var untrusted *consent.Untrusted
	switch err := store.Check(found); {
	case err == nil:
		return a.screen.printf("%s is trusted already\n", found.Path)
	case !errors.As(err, &untrusted):
		return err
	}
	a.screen.say("%s%s", found.Path, untrusted.Describe())
	if !yes {
		agreed, err := a.screen.confirm(c.Context(), "Trust it?", "toolroom trust --yes")
		if err != nil {
			return err
		}
		if !agreed {
			return toolroom.Errorf(toolroom.CodeDenied, "%s is not trusted", found.Path)
		}
	}
	if err := store.Trust(found); err != nil {
		return err
	}
	if err := a.screen.printf("trusted %s\n", found.Path); err != nil {
		return err
	}
	if file != filepath.Join(a.Dir, config.FileName) {
		return nil
	}
	// The running server would see it a moment later: the next command shall find it in force.
	a.args = []string{"reload", "--trusted"}
	_, err = a.runInServer(c.Context(), "toolroom reload", nil)
	return err
}

func (a *cli) revokeTrust(file string) error {
	was, err := consent.Open(a.home).Revoke(file)
	if err != nil {
		return err
	}
	if !was {
		return toolroom.Errorf(toolroom.CodeNotFound, "%s is not trusted", file).WithHint("list the trusted files: toolroom trust --list")
	}
	return a.screen.printf("%s is no longer trusted\n", file)
}

// listTrusted prints the trusted files, and whether they have changed since.
func (a *cli) listTrusted() error {
	store := consent.Open(a.home)
	all, err := store.List()
	if err != nil {
		return err
	}
	type entry struct {
		consent.File
		State string `json:"state"`
	}
	entries := make([]entry, len(all))
	for i, f := range all {
		state := "trusted"
		switch now, _, err := consent.Read(f.Path); {
		case errors.Is(err, fs.ErrNotExist):
			state = "missing"
		case err != nil || store.Check(now) != nil:
			state = "changed"
		}
		entries[i] = entry{f, state}
	}
	return showList(a, entries, "No toolroom.yaml of a folder is trusted yet.", []string{"FILE", "STATE", "SINCE"}, func(e entry) []string {
		return []string{e.Path, e.State, formatTime(e.Trusted)}
	})
}

// needsTrust reports whether file is used only if the user trusts it, because it was found in
// the working folder, which may come from someone else.
func (a *cli) needsTrust(file string) bool {
	if a.configFile != "" || a.trustConfig || file != filepath.Join(a.Dir, config.FileName) {
		return false
	}
	return a.UserConfig == "" || filepath.Join(a.UserConfig, "toolroom") != filepath.Clean(a.Dir)
}

// verifier returns the check of a config and of the files that it names, or nil if file
// needs no trust.
func (a *cli) verifier(file string) config.Verify {
	if file == "" || !a.needsTrust(file) {
		return nil
	}
	store := consent.Open(a.home)
	return func(path string, text []byte) error {
		if err := a.requireOwnHome(); err != nil {
			return err
		}
		if path != file {
			return store.CheckNamed(file, path, text)
		}
		found, err := consent.Inspect(path, text)
		if err != nil {
			return err
		}
		return store.Check(found)
	}
}

// requireOwnHome returns an error if the record of trust would be in the working folder, because
// such a record could have come with the config.
func (a *cli) requireOwnHome() error {
	if a.relativeHome {
		return toolroom.Errorf(toolroom.CodeDenied, "the home %s depends on the working folder, so it cannot say which configs you trust", a.home).
			WithHint("name an absolute folder: TOOLROOM_HOME or --home; or trust the config of this command: --trust-config")
	}
	return nil
}

// keepTrust returns a function that records that a config is trusted after Toolroom has edited
// it, if it was trusted before or did not exist.
func (a *cli) keepTrust(file string) config.EditHook {
	return func(before, after []byte) error {
		if !a.needsTrust(file) || a.relativeHome {
			return nil
		}
		store := consent.Open(a.home)
		if before != nil {
			found, err := consent.Inspect(file, before)
			if err == nil {
				err = store.Check(found)
			}
			if untrusted := (*consent.Untrusted)(nil); errors.As(err, &untrusted) {
				a.screen.say("%s counts once you trust it: toolroom trust", file)
				return nil
			}
			if err != nil {
				return err
			}
		}
		found, err := consent.Inspect(file, after)
		if err != nil {
			return err
		}
		return store.Trust(found)
	}
}

// sayUntrusted prints that a config is not used until it is trusted, for a command that only
// looks at it, and reports whether the config is trusted.
func (a *cli) sayUntrusted(file string) (trusted bool) {
	verify := a.verifier(file)
	if verify == nil {
		return true
	}
	if _, err := config.LoadVerified(file, verify); err != nil {
		if untrusted := (*consent.Untrusted)(nil); errors.As(err, &untrusted) {
			a.screen.say("%s\nIt counts once you trust it: toolroom trust", untrusted)
			return false
		}
	}
	return true
}

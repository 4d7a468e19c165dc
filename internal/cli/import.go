package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/clients"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
)

// importedServer is the result for one server.
type importedServer struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
	// State is added, there (it existed and is unchanged) or new (not added yet).
	State    string   `json:"state"`
	Secrets  []string `json:"secrets,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func (a *cli) importCommand() *cobra.Command {
	var path string
	var dryRun, force bool
	names := clients.Imports()
	c := &cobra.Command{
		Use:   "import {" + strings.Join(names, "|") + "}",
		Short: "Import MCP servers from another client",
		Long: `Import the MCP servers that another client is configured with. Values that look
like secrets are moved to the secret store, and the config refers to them.`,
		Example: `  toolroom import claude --dry-run
  toolroom import cursor --path ~/project`,
		Args:      arguments(1, 1),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(names, args[0]) {
				return usage("one of "+strings.Join(names, ", "), "unknown client %q", args[0])
			}
			place := clients.BaseDirs{Home: a.UserHome, Dir: a.Dir}
			if path != "" {
				place = clients.BaseDirs{Home: path, Dir: path}
			}
			result, err := clients.Read(args[0], place)
			if err != nil {
				return err
			}
			file, err := a.editable()
			if err != nil {
				return err
			}
			done, err := a.importServers(c.Context(), file, result.Found, dryRun, force)
			return errors.Join(a.printImported(file, done, result.Skipped), err)
		},
	}
	c.AddCommand(a.importFlynnCommand(), a.importToolFlowCommand())
	f := c.Flags()
	f.StringVar(&path, "path", "", "folder to search (default: your home and this folder)")
	f.BoolVar(&dryRun, "dry-run", false, "show what would be added, without changing anything")
	f.BoolVar(&force, "force", false, "replace existing sources of the same names")
	a.jsonFlag(c, "print JSON")
	return c
}

// importServers stores the servers' secrets and then adds the servers to the config as sources.
// In this order, no source lacks its secrets. If dryRun is set, it changes nothing.
func (a *cli) importServers(ctx context.Context, file string, found []clients.Found, dryRun, force bool) ([]importedServer, error) {
	before, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		before, err = config.Default(), nil
	}
	if err != nil {
		return nil, err
	}
	taken := a.secretLookup(ctx, before)
	all := make([]importedServer, len(found))
	secrets := map[string]string{}
	for i := range found {
		server := &found[i]
		all[i] = importedServer{Name: server.Name, Origin: server.Origin, State: "new", Warnings: server.Warnings}
		if _, there := before.Sources[server.Name]; there && !force {
			all[i].State = "there"
			continue
		}
		scope, other, err := server.AvoidSecrets(taken)
		if err != nil {
			return nil, err
		}
		if all[i].Warnings = server.Warnings; other != scope {
			all[i].Warnings = append(all[i].Warnings, fmt.Sprintf("secrets of secret://%s were there before and are left alone; its own are secret://%s", scope, other))
		}
		all[i].Secrets = slices.Sorted(maps.Keys(server.Secrets))
		maps.Copy(secrets, server.Secrets)
	}
	if dryRun {
		return all, nil
	}
	if err := a.storeSecrets(ctx, secrets, true); err != nil {
		return nil, err
	}
	for i, server := range found {
		if all[i].State == "there" {
			continue
		}
		err := config.AddSource(file, server.Name, server.Source, force, nil, a.keepTrust(file))
		if err := a.record(ctx, "sources.add", changeArguments{Name: server.Name, Force: force}, err); err != nil {
			return all, err
		}
		all[i].State = "added"
	}
	return all, nil
}

// secretLookup returns a function that reports whether a secret exists, or may exist in another
// store. The function opens the home at its first call.
func (a *cli) secretLookup(ctx context.Context, c *config.Config) func(secret.Ref) (bool, error) {
	var there map[secret.Ref]bool
	return func(ref secret.Ref) (bool, error) {
		if _, configured := c.Secrets.Scopes[ref.Scope]; configured {
			return true, nil
		}
		if there != nil {
			return there[ref], nil
		}
		err := a.inRoom(ctx, func(r *app.App) error {
			refs, err := r.Parts().Secrets.List()
			there = map[secret.Ref]bool{}
			for _, one := range refs {
				there[secret.Ref{Scope: one.Scope, Name: one.Name}] = true
			}
			return err
		})
		return there[ref], err
	}
}

// storeSecrets stores secrets of sources, by reference. It changes no existing secret unless
// replace is set.
func (a *cli) storeSecrets(ctx context.Context, secrets map[string]string, replace bool) error {
	if len(secrets) == 0 {
		return nil
	}
	return a.inState(ctx, func(r *app.App) error {
		if err := r.StoreSecrets(ctx, secrets, replace); err != nil {
			return err
		}
		for _, reference := range slices.Sorted(maps.Keys(secrets)) {
			name := strings.TrimPrefix(reference, "secret://")
			if err := a.recordIn(ctx, r, "secrets.set", changeArguments{Name: name}, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *cli) printImported(file string, done []importedServer, skipped []string) error {
	if a.asJSON {
		return a.screen.json(struct {
			Config  string           `json:"config"`
			Sources []importedServer `json:"sources"`
			Skipped []string         `json:"skipped"`
		}{file, orEmpty(done), orEmpty(skipped)})
	}
	rows := make([][]string, len(done))
	for i, one := range done {
		rows[i] = []string{one.Name, one.State, one.Origin}
	}
	if len(rows) > 0 {
		if err := a.screen.table([]string{"SOURCE", "", "FROM"}, rows); err != nil {
			return err
		}
	}
	for _, one := range done {
		for _, warning := range one.Warnings {
			a.screen.say("%s: %s", one.Name, warning)
		}
		if len(one.Secrets) > 0 {
			a.screen.say("%s: stored as secrets: %s", one.Name, strings.Join(one.Secrets, ", "))
		}
		if one.State == "there" {
			a.screen.say("%s already exists in %s and was not changed; --force replaces it", one.Name, file)
		}
	}
	for _, reason := range skipped {
		a.screen.say("skipped: %s", reason)
	}
	if len(done) == 0 && len(skipped) == 0 {
		a.screen.say("its config has no MCP servers")
	}
	return nil
}

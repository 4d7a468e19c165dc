package app

import (
	"context"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/source/cli"
)

// openProgram makes a command-line program a source with its name, if cli.mode and
// cli.allow permit a program that is not a source of the config. A name may have _ in place
// of -. The error is denied if the program is not permitted, and not_found if there is
// none.
func (a *App) openProgram(ctx context.Context, name string) error {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	c := a.Config()
	names := slices.Compact([]string{name, strings.ReplaceAll(name, "_", "-")})
	permitted := func(name string) bool {
		return c.CLI.Mode == string(cli.Ambient) || c.CLI.Mode != string(cli.Disabled) && slices.Contains(c.CLI.Allow, name)
	}
	if slices.ContainsFunc(names, func(name string) bool { return a.manager(name) != nil }) {
		return nil // a source that could not be listed; a call says why
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !permitted(name) })
	if len(names) == 0 || a.closed {
		return toolroom.Errorf(toolroom.CodeDenied, "no source runs the program %s, and cli.mode is %s", name, c.CLI.Mode).
			WithHint("the operator can add it as a source, or permit it in cli.allow, or all with cli.mode: ambient").
			WithCLIHint("toolroom sources add %s --cli %s", name, name)
	}
	for _, name := range names {
		if _, err := toolroom.ParseID(name + ":x"); err != nil || strings.ContainsAny(name, `/\`) {
			continue
		}
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		if err := reserved.Check(name); err != nil {
			return toolroom.AsError(err).WithHint("the operator can add the program under another name").
				WithCLIHint("toolroom sources add NAME --cli %s", name)
		}
		return a.addProgram(ctx, name, *c)
	}
	return toolroom.Errorf(toolroom.CodeNotFound, "there is no program %s on PATH", names[0]).
		WithHint("install it, or name another one")
}

// addProgram adds the source of a program until the config is read again.
func (a *App) addProgram(ctx context.Context, name string, c config.Config) error {
	c.Sources = maps.Clone(c.Sources)
	if c.Sources == nil {
		c.Sources = map[string]config.Source{}
	}
	c.Sources[name] = config.Source{CLI: &config.CLISource{Command: name}}
	a.openingProgram = name // its help would run it before policy has decided
	m, err := a.buildManager(name, &c, nil, nil)
	a.openingProgram = ""
	if err != nil || m == nil {
		return err
	}
	newManager(m)
	a.mu.Lock()
	a.managers[name] = m
	a.mu.Unlock()
	m.publish()
	a.log.Info("a program of this machine became a source", "source", name)
	return m.list(ctx)
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/install"
)

func (a *app) setupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "setup",
		Short:   "Install what is not part of this binary",
		Example: "  toolroom setup engines\n  toolroom setup microvm",
		Args:    arguments(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.setupEnginesCommand(), a.setupMicroVMCommand())
	return c
}

func (a *app) setupEnginesCommand() *cobra.Command {
	var from string
	var with []string
	c := &cobra.Command{
		Use:   "engines",
		Short: "Install the engines that programs of agents run on",
		Long: `Install the engines that programs of agents run on, into the home folder.

They come from the Python Package Index, or the mirror that pip is set to, and
are used only when their SHA-256 is the one that this release knows.

  py-lite   Monty, which runs a part of Python, in microseconds

With --with, and then from the npm registry, or the mirror that npm is set to:

  pyodide   Pyodide, CPython as WebAssembly, and Deno, which it runs under`,
		Example: `  toolroom setup engines
  toolroom setup engines --with pyodide
  toolroom setup engines --from pydantic_monty_runtime-1.4.0-py3-none-manylinux_2_28_x86_64.whl`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.setupEngines(c.Context(), from, with) },
	}
	c.Flags().StringVar(&from, "from", "", "a wheel of Monty that is already here, in place of the index")
	c.Flags().StringSliceVar(&with, "with", nil, "install this engine too: pyodide")
	return c
}

func (a *app) setupEngines(ctx context.Context, from string, with []string) error {
	var packages []install.Package
	for _, engine := range with {
		found := install.Packages(engine)
		if len(found) == 0 {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no engine %q to install", engine).WithHint("there is pyodide")
		}
		packages = append(packages, found...)
	}
	for _, item := range install.Items() {
		path, err := item.Install(ctx, a.home, from, install.Pip)
		if err != nil {
			return err
		}
		if err := a.screen.printf("%s: %s %s is in %s\n", item.Engine, item.Project, item.Version, path); err != nil {
			return err
		}
	}
	for _, p := range packages {
		path, err := p.Install(ctx, a.home, install.NPM)
		if err != nil {
			return err
		}
		if err := a.screen.printf("%s: %s %s is in %s\n", p.Engine, p.Name, p.Version, path); err != nil {
			return err
		}
	}
	return nil
}

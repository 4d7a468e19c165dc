package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/install"
)

func (a *cli) setupCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "setup",
		Short:   "Install optional components",
		Example: "  toolroom setup engines\n  toolroom setup microvm",
		Args:    arguments(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.setupEnginesCommand(), a.setupPackagesCommand(), a.setupMicroVMCommand())
	return c
}

func (a *cli) setupEnginesCommand() *cobra.Command {
	var from string
	var with []string
	c := &cobra.Command{
		Use:   "engines",
		Short: "Install engines that are not part of the binary",
		Long: `Install engines that are not part of the binary into the home folder.

They come from the Python Package Index, or the mirror that pip is configured with,
and are used only if their SHA-256 matches this release.

  py-lite   Monty, which runs a subset of Python and starts in microseconds

With --with, from the npm registry, or the mirror that npm is configured with:

  pyodide   Pyodide, CPython as WebAssembly, and Deno, which it runs under`,
		Example: `  toolroom setup engines
  toolroom setup engines --with pyodide
  toolroom setup engines --from pydantic_monty_runtime-1.4.0-py3-none-manylinux_2_28_x86_64.whl`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.setupEngines(c.Context(), from, with) },
	}
	c.Flags().StringVar(&from, "from", "", "a local wheel of Monty to use instead of the index")
	c.Flags().StringSliceVar(&with, "with", nil, "install this engine too: pyodide")
	return c
}

func (a *cli) setupPackagesCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "packages",
		Short: "Install uv, which resolves the packages of functions",
		Long: `Install uv into the home folder. It comes from the Python Package Index, or the mirror
that pip is configured with, and is used only if its SHA-256 matches this release.
A uv on PATH is used, too.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			uv := install.UV()
			done := a.screen.showActivity("downloading uv")
			path, err := uv.Install(c.Context(), a.home, from, install.Pip)
			done()
			if err != nil {
				return err
			}
			return a.screen.printf("installed %s %s in %s\n", uv.Project, uv.Version, path)
		},
	}
	c.Flags().StringVar(&from, "from", "", "a local wheel of uv to use instead of the index")
	return c
}

func (a *cli) setupEngines(ctx context.Context, from string, with []string) error {
	var packages []install.Package
	for _, engine := range with {
		found := install.Packages(engine)
		if len(found) == 0 {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "unknown engine %q", engine).WithHint("available: pyodide")
		}
		packages = append(packages, found...)
	}
	for _, item := range install.Items() {
		done := a.screen.showActivity("downloading " + item.Project)
		path, err := item.Install(ctx, a.home, from, install.Pip)
		done()
		if err != nil {
			return err
		}
		if err := a.screen.printf("%s: installed %s %s in %s\n", item.Engine, item.Project, item.Version, path); err != nil {
			return err
		}
	}
	for _, p := range packages {
		done := a.screen.showActivity("downloading " + p.Name)
		path, err := p.Install(ctx, a.home, install.NPM)
		done()
		if err != nil {
			return err
		}
		if err := a.screen.printf("%s: installed %s %s in %s\n", p.Engine, p.Name, p.Version, path); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/code"
)

func (a *cli) stubsCommand() *cobra.Command {
	var who caller
	var language string
	c := &cobra.Command{
		Use:   "stubs [PATTERN...]",
		Short: "Print TypeScript or Python declarations of the tools",
		Long: `Print declarations of the tools that you may call, with the types of arguments and
results: a .d.ts for TypeScript and JavaScript, or Python stubs. A pattern is a
namespace, or an id in which * matches any text.`,
		Example: `  toolroom stubs > toolroom.d.ts
  toolroom stubs -l python github 'files:read*' > toolroom.pyi`,
		Args: cobra.ArbitraryArgs,
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if err := oneOf("--lang", language, "ts", "python", "python-await", "py", "typescript"); err != nil {
				return err
			}
			if err := a.loadAll(ctx, r, ""); err != nil {
				return err
			}
			seer, err := who.viewer(r)
			if err != nil {
				return err
			}
			runner := r.Parts().Runner
			text, err := code.Stubs(language, runner.Catalog.Shown(runner.View(seer, "")), args)
			if err != nil {
				return err
			}
			return a.screen.text(text)
		}),
	}
	c.Flags().StringVarP(&language, "lang", "l", "ts", "ts, python, or python-await for programs that await")
	completeValues(c, "lang", "ts", "python", "python-await")
	who.identityFlags(c)
	who.environmentFlag(c)
	return c
}

package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
)

func (a *cli) toolsCommand() *cobra.Command {
	var who caller
	var namespace string
	var hidden, asJSON bool
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools",
		Example: `  toolroom tools --namespace filesystem
  toolroom tools --json`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			if err := a.loadAll(ctx, r, namespace); err != nil {
				return err
			}
			seer, err := who.seer(r)
			if err != nil {
				return err
			}
			tools, err := listTools(r, seer, catalog.ListOptions{Namespace: namespace, Hidden: hidden})
			if err != nil {
				return err
			}
			if asJSON {
				return a.screen.json(tools)
			}
			return a.printTools(r, tools)
		}),
	}
	c.Flags().StringVar(&namespace, "namespace", "", "only tools in this namespace")
	c.Flags().BoolVar(&hidden, "hidden", false, "include hidden tools")
	c.Flags().BoolVar(&asJSON, "json", false, "print complete definitions as JSON")
	who.identityFlags(c)
	who.environmentFlag(c)
	a.completeNamespace(c)
	return c
}

// listTools reads all pages of the list. If the tools change meanwhile, it starts again, so
// that none is missed.
func listTools(r *app.App, who toolroom.Identity, o catalog.ListOptions) ([]toolroom.Tool, error) {
	o.Limit = catalog.MaxPage
	tools := []toolroom.Tool{}
	for restarts := 0; ; {
		page, err := r.Tools(who, o)
		if toolroom.CodeOf(err) == toolroom.CodeInvalidCursor && restarts < maxRestarts {
			restarts++
			o.Cursor, tools = "", tools[:0]
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			tools = append(tools, e.Tool)
		}
		if page.Next == "" {
			return tools, nil
		}
		o.Cursor = page.Next
	}
}

const maxRestarts = 10

func (a *cli) printTools(r *app.App, tools []toolroom.Tool) error {
	if len(tools) == 0 {
		if len(r.Sources()) == 0 {
			a.screen.say("There are no tools yet. %s", firstSteps)
		} else {
			a.screen.say("No matching tools. Check the sources: toolroom sources list")
		}
		return nil
	}
	rows := make([][]string, len(tools))
	for i, t := range tools {
		rows[i] = []string{t.ID.String(), string(t.Source), catalog.Shorten(cmp.Or(t.Description, t.Title), 200)}
	}
	return a.screen.table([]string{"TOOL", "SOURCE", "WHAT IT DOES"}, rows)
}

// firstSteps is the next step in an empty room.
const firstSteps = `Add a source of tools:
  toolroom import claude                     the MCP servers of Claude (or codex, cursor, vscode, gemini)
  toolroom sources add NAME -- COMMAND ARGS  an MCP server that runs here
  toolroom sources add NAME URL              an MCP server elsewhere
  toolroom sources add NAME --openapi FILE   an HTTP service
  toolroom sources add git --cli git         a program`

package cli

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
)

func (a *cli) toolsCommand() *cobra.Command {
	var who caller
	var o catalog.ListOptions
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools",
		Example: `  toolroom tools --namespace filesystem
  toolroom tools --limit 100
  toolroom tools --json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				namespace, name, _ := strings.Cut(args[0], ":")
				if name != "" && name != "*" {
					return usage("toolroom describe "+shellWord(args[0])+"\ntoolroom tools --namespace "+shellWord(namespace), "toolroom tools does not take %q", args[0])
				}
				return usage("toolroom tools --namespace "+shellWord(namespace), "toolroom tools does not take %q", args[0])
			}
			return arguments(0, 0)(c, args)
		},
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			if err := a.loadAll(ctx, r, o.Namespace); err != nil {
				return err
			}
			seer, err := who.viewer(r)
			if err != nil {
				return err
			}
			tools, err := a.pageOfTools(r, seer, o)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(tools)
			}
			return a.printTools(r, tools)
		}),
	}
	c.Flags().StringVar(&o.Namespace, "namespace", "", "only tools in this namespace")
	c.Flags().BoolVar(&o.Hidden, "hidden", false, "include hidden tools")
	c.Flags().StringVar(&o.Cursor, "cursor", "", "with --limit: cursor of the page, which the previous page prints")
	c.Flags().IntVar(&o.Limit, "limit", 0, "size of a page, at most 1000 (default: all tools)")
	a.jsonFlag(c, "print complete definitions as JSON")
	who.identityFlags(c)
	who.environmentFlag(c)
	a.completeFlag(c, "namespace", sourceCandidates)
	return c
}

// pageOfTools returns a page of the tools, or all tools if there is no limit.
func (a *cli) pageOfTools(r *app.App, who toolroom.Identity, o catalog.ListOptions) ([]toolroom.Tool, error) {
	switch {
	case o.Limit < 0 || o.Limit > catalog.MaxPage:
		return nil, usage("--limit 100", "--limit must be between 1 and %d", catalog.MaxPage)
	case o.Limit == 0 && o.Cursor != "":
		return nil, usage("--limit 100", "--cursor needs the --limit of the page before")
	case o.Limit == 0:
		return listTools(r, who, o)
	}
	page, err := r.Tools(who, o)
	if err != nil {
		return nil, err
	}
	tools := make([]toolroom.Tool, len(page.Entries))
	for i, e := range page.Entries {
		tools[i] = e.Tool
	}
	if page.Next != "" {
		a.screen.say("for more add --cursor %s", page.Next)
	}
	return tools, nil
}

// listTools reads all pages of the list. If the tools change meanwhile, it starts again so that
// it misses none.
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
	id, kind := 0, len("SOURCE")
	for i, t := range tools {
		rows[i] = []string{t.ID.String(), string(t.Source), catalog.Shorten(cmp.Or(t.Description, t.Title), 200)}
		id, kind = max(id, utf8.RuneCountInString(rows[i][0])), max(kind, len(t.Source))
	}
	// A description gets one line on a terminal.
	if room := a.screen.width() - id - kind - 2*columnGap; room >= readable/2 && !a.screen.wide {
		for _, row := range rows {
			row[2] = truncate(oneLine(row[2]), room)
		}
	}
	return a.screen.table([]string{"TOOL", "SOURCE", "WHAT IT DOES"}, rows)
}

// firstSteps is the hint for an empty room.
const firstSteps = `Add a source of tools:
  toolroom import claude                     MCP servers of Claude, Codex, …
  toolroom sources add NAME -- COMMAND ARGS  an MCP server that runs here
  toolroom sources add NAME URL              an MCP server elsewhere
  toolroom sources add NAME --openapi FILE   an HTTP service
  toolroom sources add git --cli git         a program`

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/room"
)

func (a *app) searchCommand() *cobra.Command {
	var who caller
	var o catalog.SearchOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "search QUERY",
		Short: "Find tools by what you want to do",
		Example: `  toolroom search "read a file"
  toolroom search create an issue --limit 3 --json`,
		Args: arguments(1, -1),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			if o.Limit < 1 {
				return usage("--limit 10", "a search for %d tools finds none", o.Limit)
			}
			if err := loadAll(ctx, r, o.Namespace); err != nil {
				return err
			}
			found := r.Search(who.identity(), strings.Join(args, " "), o)
			if asJSON {
				return a.screen.json(found)
			}
			return a.printFound(found)
		}),
	}
	c.Flags().IntVar(&o.Limit, "limit", 10, "most tools to show")
	c.Flags().StringVar(&o.Namespace, "namespace", "", "only tools of this namespace")
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	who.identityFlags(c)
	a.completeNamespace(c)
	return c
}

func (a *app) printFound(found catalog.Found) error {
	if len(found.Hits) == 0 {
		a.screen.say("%s", found.Hint)
		return nil
	}
	for _, hit := range found.Hits {
		var why []string
		for _, m := range hit.Why {
			why = append(why, fmt.Sprintf("%s in %s", m.Term, m.Field))
		}
		text := a.screen.paint(bold, printable(hit.ID)) + "  " + oneLine(hit.Text) + "\n  " + oneLine(hit.Call) + "\n"
		if len(why) > 0 {
			text += a.screen.paint(dim, "  found by "+oneLine(strings.Join(why, ", "))) + "\n"
		}
		if _, err := fmt.Fprint(a.Out, text); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/internal/visible"
)

func (a *cli) searchCommand() *cobra.Command {
	var who caller
	var o catalog.SearchOptions
	c := &cobra.Command{
		Use:   "search QUERY",
		Short: "Find tools by description",
		Example: `  toolroom search "read a file"
  toolroom search create an issue --limit 3 --json
  toolroom search embedder status`,
		Args: arguments(1, -1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if o.Limit < 1 {
				return usage("--limit 10", "--limit must be positive, not %d", o.Limit)
			}
			if err := a.loadAll(ctx, r, o.Namespace); err != nil {
				return err
			}
			seer, err := who.viewer(r)
			if err != nil {
				return err
			}
			found := r.Search(seer, strings.Join(args, " "), o)
			return show(a, found, a.printFound)
		}),
	}
	c.Flags().IntVar(&o.Limit, "limit", 10, "maximum number of tools")
	c.Flags().StringVar(&o.Namespace, "namespace", "", "only tools in this namespace")
	a.jsonFlag(c, "print JSON")
	who.identityFlags(c)
	who.environmentFlag(c)
	a.completeFlag(c, "namespace", sourceCandidates)
	c.AddCommand(a.searchEmbedderCommand(), a.searchForgetCommand())
	return c
}

// matchReasons describes why a search found each tool: the words of the query with the fields
// that contain them.
func matchReasons(matches []toolroom.Match) string {
	var words []string
	places := map[string][]string{}
	for _, m := range matches {
		place := m.Field
		switch place {
		case search.FieldUse.String():
			place = "used after"
		case search.FieldMeaning.String():
			m.Term, place = "its meaning", ""
		}
		if _, known := places[m.Term]; !known {
			words = append(words, m.Term)
		}
		places[m.Term] = append(places[m.Term], place)
	}
	for i, word := range words {
		if at := strings.Join(places[word], ", "); at != "" {
			words[i] = fmt.Sprintf("%s (%s)", word, at)
		}
	}
	return strings.Join(words, ", ")
}

func (a *cli) printFound(found toolroom.Found) error {
	if found.Note != "" {
		a.screen.say("%s", oneLine(found.Note))
	}
	if len(found.Hits) == 0 {
		a.screen.say("%s", found.Hint)
		return nil
	}
	for _, hit := range found.Hits {
		lines := wrap(hit.ID+"  "+oneLine(hit.Text), a.screen.textWidth())
		first, ok := strings.CutPrefix(lines[0], hit.ID)
		if !ok { // the id is wider than the terminal
			first, lines = "", append(lines[:1:1], wrap(oneLine(hit.Text), a.screen.textWidth())...)
		}
		text := a.screen.paint(bold, visible.Text(hit.ID)) + first + "\n"
		for _, part := range lines[1:] {
			text += "  " + part + "\n"
		}
		text += "  " + visible.Text(hit.Call) + "\n"
		if why := matchReasons(hit.Why); why != "" {
			for _, part := range wrap("found by "+oneLine(why), a.screen.textWidth()) {
				text += "  " + a.screen.paint(dim, part) + "\n"
			}
		}
		if _, err := fmt.Fprint(a.Out, text); err != nil {
			return err
		}
	}
	return nil
}

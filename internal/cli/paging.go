package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/server/api"
)

// paging are the flags by which a list is paged, as over HTTP.
type paging struct{ api.Paging }

// flags adds the flags. limit is the default size of a page.
func (p *paging) flags(c *cobra.Command, limit int) {
	c.Flags().StringVar(&p.Cursor, "cursor", "", "cursor of the page, which the previous page prints")
	c.Flags().IntVar(&p.Limit, "limit", limit, "size of a page, at most 1000")
}

// pageOf returns a page of a list, and says how to get the next one.
func pageOf[T any](a *cli, p *paging, list []T, id func(T) string) ([]T, error) {
	if p.Limit < 1 || p.Limit > api.MaxPage {
		return nil, usage("--limit 100", "--limit must be between 1 and %d", api.MaxPage)
	}
	list, next, err := api.Page(list, p.Paging, id)
	if err != nil {
		return nil, err
	}
	if next != "" {
		a.screen.say("for more add --cursor %s", next)
	}
	return list, nil
}

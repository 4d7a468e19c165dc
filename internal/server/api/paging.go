package api

import (
	"cmp"
	"slices"

	"github.com/toolroom/toolroom"
)

// Paging selects a page of a list. Lists are newest first.
type Paging struct {
	Cursor string `query:"cursor" doc:"next of the previous page; empty for the first"`
	Limit  int    `query:"limit" minimum:"0" doc:"page size (default 100, at most 1,000)"`
}

const (
	defaultPage = 100
	// MaxPage is the largest size of a page.
	MaxPage = 1000
)

// Page returns a page of a list, and the cursor of the next one; it is empty at the end of
// the list. The cursor is the id of the last item, so that items that are added meanwhile
// neither repeat nor hide others.
func Page[T any](list []T, p Paging, id func(T) string) ([]T, string, error) {
	if p.Cursor != "" {
		at := slices.IndexFunc(list, func(one T) bool { return id(one) == p.Cursor })
		if at < 0 {
			return nil, "", toolroom.Errorf(toolroom.CodeInvalidCursor, "the item of the cursor %q has gone", p.Cursor).
				WithHint("begin with the first page: leave out cursor")
		}
		list = list[at+1:]
	}
	limit := cmp.Or(p.Limit, defaultPage)
	limit = min(limit, MaxPage)
	if len(list) <= limit {
		return append([]T{}, list...), "", nil
	}
	return list[:limit], id(list[limit-1]), nil
}

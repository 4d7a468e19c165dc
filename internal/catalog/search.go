package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/search"
)

// SearchOptions are options of [Catalog.Search].
type SearchOptions struct {
	// Limit is the maximum number of hits, at most 100. The default is 10.
	Limit     int
	Namespace string
	// Visible reports whether the caller may see an entry; nil shows all.
	Visible func(*Entry) bool
	// Form is the form of the ready call in each hit. The default is FormCLI.
	Form toolroom.Form
}

// Limits of a search.
const (
	defaultHits = 10
	maxHits     = 100
	maxSummary  = 120
)

// Search ranks the visible tools for a query in natural language. For a blank query it
// returns the first tools in the order of ids.
func (c *Catalog) Search(query string, o SearchOptions) toolroom.Found {
	limit := o.Limit
	if limit <= 0 {
		limit = defaultHits
	}
	keep := func(id string) bool {
		e := c.shownAs(id)
		return e != nil && (o.Namespace == "" || e.Tool.ID.Namespace == o.Namespace) && (o.Visible == nil || o.Visible(e))
	}
	limit = min(limit, maxHits)
	found := toolroom.Found{Query: query, Hits: []toolroom.Hit{}}
	add := func(e *Entry, score float64, why []toolroom.Match) {
		found.Hits = append(found.Hits, toolroom.Hit{
			ID:    e.Tool.ID.Unversioned().String(),
			Name:  e.ModelName,
			Title: e.Tool.Title,
			Text:  Shorten(e.Tool.Description, maxSummary),
			Score: score,
			Why:   why,
			Call:  ReadyCall(e, o.Form),
		})
	}
	if strings.TrimSpace(query) == "" {
		// Errors are impossible without a cursor.
		page, _ := c.List(ListOptions{Limit: limit, Namespace: o.Namespace, Visible: o.Visible})
		for _, e := range page.Entries {
			add(e, 0, []toolroom.Match{})
		}
		found.Total = c.visibleCount(o)
	}
	for _, h := range c.index.Search(query, search.Options{Limit: limit, Filter: keep}) {
		if e := c.shownAs(h.ID); e != nil { // nil if it was removed after the index was read
			add(e, h.Score, h.Why)
		}
	}
	if len(found.Hits) == 0 {
		found.Total = c.visibleCount(o)
		found.Hint = c.signpost(query, o, found.Total)
	}
	return found
}

func (c *Catalog) shownAs(id string) *Entry {
	e, _ := c.shown.Load(id)
	entry, _ := e.(*Entry)
	return entry
}

func (c *Catalog) visibleCount(o SearchOptions) int {
	if o.Visible == nil && o.Namespace == "" {
		return c.index.Len()
	}
	n := 0
	for namespace, count := range c.Namespaces(o.Visible) {
		if o.Namespace == "" || o.Namespace == namespace {
			n += count
		}
	}
	return n
}

// signpost returns the hint for a search without hits.
func (c *Catalog) signpost(query string, o SearchOptions, total int) string {
	list := "an empty query lists them"
	cli := o.Form == "" || o.Form == toolroom.FormCLI
	if cli {
		list = "list them: toolroom tools"
	}
	switch {
	case total > 0:
	case cli:
		return "no tools are here yet: add a source (toolroom sources add NAME -- COMMAND, or toolroom import claude)"
	default:
		return "there are no tools that you may see"
	}
	counts := c.Namespaces(o.Visible)
	where := slices.Sorted(maps.Keys(counts))
	for i, namespace := range where {
		where[i] = fmt.Sprintf("%s (%d)", namespace, counts[namespace])
	}
	if len(where) > maxCandidates {
		where = append(where[:maxCandidates], "…")
	}
	return fmt.Sprintf("nothing matches %q among %d tools; try other words for what you want to do, or %s. There are: %s",
		Shorten(query, maxSummary), total, list, strings.Join(where, ", "))
}

// Shorten truncates a text to its first paragraph and at most n bytes, at a word
// boundary.
func Shorten(text string, n int) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= n {
		return text
	}
	cut := text[:n-len("…")]
	// A space right after the cut also ends a word.
	if at := strings.LastIndexByte(text[:len(cut)+1], ' '); at > n/2 {
		cut = cut[:at]
	}
	return strings.ToValidUTF8(cut, "") + "…"
}

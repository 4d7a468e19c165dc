package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/search"
)

// SearchOptions select what Search returns.
type SearchOptions struct {
	// Limit is the most hits; zero is 10, the most is 100.
	Limit     int
	Namespace string
	// Visible keeps entries that the caller may see; nil keeps all.
	Visible func(*Entry) bool
	// Form is the form of the ready call in each hit; empty is FormCLI.
	Form Form
}

// Limits of a search.
const (
	defaultHits = 10
	maxHits     = 100
	maxSummary  = 120
)

// Hit is one found tool.
type Hit struct {
	ID    string  `json:"id"`
	Name  string  `json:"name"` // for model APIs
	Title string  `json:"title,omitempty"`
	Text  string  `json:"summary"`
	Score float64 `json:"score"`
	// Why says which words of the query matched where.
	Why []search.Match `json:"why"`
	// Call shows how to call the tool.
	Call string `json:"call"`
}

// Found is the answer to a search. Hint is set when there are no hits.
type Found struct {
	Query string `json:"query"`
	Hits  []Hit  `json:"hits"`
	// Total is how many tools the caller could have found. It is counted only
	// when there are no hits.
	Total int    `json:"total,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Search ranks the visible tools for a query in natural language.
func (c *Catalog) Search(query string, o SearchOptions) Found {
	limit := o.Limit
	if limit <= 0 {
		limit = defaultHits
	}
	keep := func(id string) bool {
		e := c.shownAs(id)
		return e != nil && (o.Namespace == "" || e.Tool.ID.Namespace == o.Namespace) && (o.Visible == nil || o.Visible(e))
	}
	found := Found{Query: query, Hits: []Hit{}}
	for _, h := range c.index.Search(query, search.Options{Limit: min(limit, maxHits), Filter: keep}) {
		e := c.shownAs(h.ID)
		if e == nil { // it went away since the index was read
			continue
		}
		found.Hits = append(found.Hits, Hit{
			ID:    h.ID,
			Name:  e.ModelName,
			Title: e.Tool.Title,
			Text:  Shorten(e.Tool.Description, maxSummary),
			Score: h.Score,
			Why:   h.Why,
			Call:  ReadyCall(e, o.Form),
		})
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

// signpost is what to do when nothing was found.
func (c *Catalog) signpost(query string, o SearchOptions, total int) string {
	if total == 0 {
		return "no tools are here yet: add a source (toolroom sources add NAME -- COMMAND, or toolroom import claude)"
	}
	counts := c.Namespaces(o.Visible)
	where := slices.Sorted(maps.Keys(counts))
	for i, namespace := range where {
		where[i] = fmt.Sprintf("%s (%d)", namespace, counts[namespace])
	}
	if len(where) > maxCandidates {
		where = append(where[:maxCandidates], "…")
	}
	return fmt.Sprintf("nothing matches %q among %d tools; try other words for what you want to do, or list them: toolroom tools. There are: %s",
		Shorten(query, maxSummary), total, strings.Join(where, ", "))
}

// Shorten cuts a text to its first paragraph and at most n bytes, at a word.
func Shorten(text string, n int) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= n {
		return text
	}
	cut := text[:n-len("…")]
	// A space right behind the cut is the end of a word too.
	if at := strings.LastIndexByte(text[:len(cut)+1], ' '); at > n/2 {
		cut = cut[:at]
	}
	return strings.ToValidUTF8(cut, "") + "…"
}

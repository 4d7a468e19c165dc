package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/source"
)

// SearchOptions are options of [Catalog.Search].
type SearchOptions struct {
	// Limit is the maximum number of hits, at most 100. The default is 10.
	Limit     int
	Namespace string
	View
	// Form is the form of the ready call in each hit. The default is FormCLI.
	Form toolroom.Form
	// Caller, if not nil, makes the search use what the caller's team has learned, and learn
	// from the search. Without a caller the search is by words alone, which is fast enough
	// for suggestions.
	Caller *Caller
}

// Caller identifies the caller of a search and its session.
type Caller struct {
	Identity toolroom.Identity
	Session  string
}

// Meaning lets searches compare the meaning of a query with that of tools, by embedding
// vectors. [Catalog.SetVectors] sets the vectors of the tools.
type Meaning struct {
	// Query returns the vectors of the parts of a query, or nil and the reason. It must not
	// take long.
	Query func(ctx context.Context, parts []string) (vectors [][]float32, reason string)
	// Weight is the weight of meaning in the ranking, relative to words.
	Weight float64
}

// A Learner learns which tools are used after which searches.
type Learner interface {
	Recall(who toolroom.Identity) func(term string) []search.Lesson
	Searched(who toolroom.Identity, session, query string, hits []string)
}

// SetMeaning makes searches use meaning; nil makes them use words alone, and drops the
// vectors of tools.
func (c *Catalog) SetMeaning(m *Meaning) {
	c.meaning.Store(m)
	if m == nil {
		c.index.ClearVectors()
	}
}

// SetMissingMeaning sets the reason why searches use words alone although the config asks for more;
// an empty reason clears it.
func (c *Catalog) SetMissingMeaning(reason string) { c.noMeaning.Store(&reason) }

// Texts returns the text to embed for each tool that searches find, by id, with @ and the
// version if it is one of [Catalog.SetVariants].
func (c *Catalog) Texts() map[string]string {
	texts := make(map[string]string)
	c.searchable.Range(func(id, e any) bool {
		texts[id.(string)] = document(e.(*Entry), source.Description{}).Text()
		return true
	})
	c.variants.Range(func(id, versions any) bool {
		for version, e := range versions.(map[string]*Entry) {
			texts[id.(string)+"@"+version] = document(e, source.Description{}).Text()
		}
		return true
	})
	return texts
}

// SetVectors gives tools the vectors of their texts, by id.
func (c *Catalog) SetVectors(vectors map[string][]float32) { c.index.SetVectors(vectors) }

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
	keep := func(key string) bool {
		id, version, _ := strings.Cut(key, "@")
		e := c.searchableEntry(id)
		return e != nil && (o.Namespace == "" || e.Tool.ID.Namespace == o.Namespace) && o.shows(e) && c.documentFor(id, e, o.View) == version
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
		page, _ := c.List(ListOptions{Limit: limit, Namespace: o.Namespace, View: o.View})
		for _, e := range page.Entries {
			add(e, 0, []toolroom.Match{})
		}
		found.Total = c.visibleCount(o)
	}
	options := search.Options{Limit: limit, Filter: keep}
	found.Note = c.addSearchSignals(query, o.Caller, &options)
	for _, h := range c.index.Search(query, options) {
		id, _, _ := strings.Cut(h.ID, "@")
		if e := c.searchableEntry(id); e != nil { // nil if it was removed after the index was read
			add(o.as(e), h.Score, h.Why)
		}
	}
	if len(found.Hits) == 0 {
		found.Total = c.visibleCount(o)
		found.Hint = c.noHitsHint(query, o, found.Total)
	}
	if o.Caller != nil && c.learner != nil {
		hits := make([]string, len(found.Hits))
		for i, h := range found.Hits {
			hits[i] = h.ID
		}
		c.learner.Searched(o.Caller.Identity, o.Caller.Session, query, hits)
	}
	return found
}

// addSearchSignals adds to the options of a search what the team of the caller has learned and
// the vectors of the query. The note says why there are no vectors.
func (c *Catalog) addSearchSignals(query string, caller *Caller, o *search.Options) (note string) {
	if caller == nil {
		return ""
	}
	if c.learner != nil {
		o.Learned = c.learner.Recall(caller.Identity)
	}
	m := c.meaning.Load()
	if strings.TrimSpace(query) == "" {
		return ""
	}
	if m == nil {
		if reason := c.noMeaning.Load(); reason != nil && *reason != "" {
			return "searched by words alone: " + *reason
		}
		return ""
	}
	if n, enough := c.index.Vectored(); !enough {
		return fmt.Sprintf("searched by words alone: %d of %d tools are embedded so far", n, c.index.Len())
	}
	vectors, reason := m.Query(context.Background(), search.Parts(query))
	if vectors == nil {
		return "searched by words alone: " + reason
	}
	o.Vectors, o.Weight = vectors, m.Weight
	return ""
}

// SetVariants replaces the versions of tools that serve some callers instead of the version
// in the catalog, so that a search ranks a tool by the definition that serves its caller.
func (c *Catalog) SetVariants(entries []*Entry) {
	now := map[string]map[string]*Entry{}
	for _, e := range entries {
		if id := e.Tool.ID.Unversioned().String(); e.Tool.Release != nil && !e.Tool.Hidden {
			if now[id] == nil {
				now[id] = map[string]*Entry{}
			}
			now[id][strconv.Itoa(e.Tool.Release.Version)] = e
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := map[string]map[string]*Entry{}
	c.variants.Range(func(id, versions any) bool {
		before[id.(string)] = versions.(map[string]*Entry)
		return true
	})
	for id, versions := range now {
		for version, e := range versions {
			if before[id][version] != e {
				d := document(e, c.providers[e.Provider])
				d.Variant = version
				c.index.Put(d)
			}
		}
		c.variants.Store(id, versions)
	}
	for id, versions := range before {
		for version := range versions {
			if now[id][version] == nil {
				c.index.Delete(id + "@" + version)
			}
		}
		if now[id] == nil {
			c.variants.Delete(id)
		}
	}
}

// documentFor returns the variant by which a view ranks a tool, or "" for the version in the
// catalog.
func (c *Catalog) documentFor(id string, e *Entry, v View) string {
	versions, ok := c.variants.Load(id)
	if !ok {
		return ""
	}
	served := v.as(e)
	if served == nil || served.Tool.Release == nil || e.Tool.Release != nil && served.Tool.Release.Version == e.Tool.Release.Version {
		return ""
	}
	version := strconv.Itoa(served.Tool.Release.Version)
	if versions.(map[string]*Entry)[version] == nil {
		return ""
	}
	return version
}

func (c *Catalog) searchableEntry(id string) *Entry {
	e, _ := c.searchable.Load(id)
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

// noHitsHint returns the hint for a search without hits.
func (c *Catalog) noHitsHint(query string, o SearchOptions, total int) string {
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

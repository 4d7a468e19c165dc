package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
)

// maxCandidates is the maximum number of tools that an error names.
const maxCandidates = 5

// Resolve returns the tool that a spelling names. The error is an [*toolroom.Error]
// with code invalid_id, tool_not_found with the nearest tools, or ambiguous_tool with
// the candidates. Errors name only tools for which visible returns true; nil permits
// all.
func (c *Catalog) Resolve(spelling string, visible func(*Entry) bool) (*Entry, error) {
	cache := c.currentResolutions()
	if e, ok := cache.entries.Load(spelling); ok {
		return e.(*Entry), nil
	}
	c.mu.RLock()
	e, candidates, err := c.lookup(spelling)
	sole := e != nil && len(c.offers[e.Tool.ID.Unversioned()]) == 1
	c.mu.RUnlock()
	switch {
	case err != nil:
		return nil, err
	case e != nil:
		if sole { // otherwise the selector may choose another one next time
			cache.entries.Store(spelling, e)
		}
		return e, nil
	case len(candidates) > 1:
		return nil, ambiguous(spelling, c.names(candidates, visible))
	default:
		return nil, c.NotFound(spelling, visible)
	}
}

// resolutions caches the tools of spellings for one version of the catalog. It holds only
// spellings of existing tools, so its size is bounded: each tool has a few.
type resolutions struct {
	version uint64
	entries sync.Map // of *Entry, by string
}

// currentResolutions returns the cache for the current version of the catalog.
func (c *Catalog) currentResolutions() *resolutions {
	version := c.Version()
	if m := c.resolved.Load(); m != nil && m.version == version {
		return m
	}
	m := &resolutions{version: version}
	c.resolved.Store(m)
	return m
}

// lookup returns the tool, or all candidates if there are several.
func (c *Catalog) lookup(spelling string) (*Entry, []toolroom.ID, error) {
	found, err := c.meanings(spelling)
	if len(found) == 1 {
		return c.serving(found[0]), nil, nil
	}
	return nil, found, err
}

// meanings returns the tools that a spelling can mean now. A canonical id and the name
// for model APIs are exact. An alias is one reading among others, so that it cannot
// replace another tool.
func (c *Catalog) meanings(spelling string) ([]toolroom.ID, error) {
	if id, err := toolroom.ParseID(spelling); err == nil {
		if e := c.serving(id.Unversioned()); e != nil && serves(e, id.Version) {
			return []toolroom.ID{id.Unversioned()}, nil
		}
	}
	if id, ok := c.byModelName[spelling]; ok {
		return []toolroom.ID{id}, nil
	}
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return nil, err
	}
	var found []toolroom.ID
	add := func(id toolroom.ID, version toolroom.Version) {
		if e := c.serving(id); e != nil && serves(e, version) && !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	if id, ok := c.byAlias[spelling]; ok {
		add(id, "")
	}
	for _, id := range readings {
		if id.Namespace != "" {
			add(id.Unversioned(), id.Version)
			continue
		}
		for _, same := range c.byName[id.Name] {
			add(same, id.Version)
		}
	}
	outsideProd := func(id toolroom.ID) bool { return c.serving(id).OutsideProd }
	if len(found) > 1 && !slices.ContainsFunc(found, func(id toolroom.ID) bool { return !outsideProd(id) }) {
		return found, nil
	}
	if len(found) > 1 {
		found = slices.DeleteFunc(found, outsideProd)
	}
	return found, nil
}

func serves(e *Entry, v toolroom.Version) bool { return v == "" || v == e.Tool.ID.Version }

func (c *Catalog) names(ids []toolroom.ID, visible func(*Entry) bool) []string {
	var names []string
	for _, id := range ids {
		if e := c.entryOf(id); e != nil && (visible == nil || visible(e)) {
			names = append(names, id.String())
		}
	}
	slices.Sort(names)
	return names
}

func ambiguous(spelling string, names []string) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeAmbiguousTool, "%q can mean several tools", spelling)
	e.Phase = toolroom.PhaseResolve
	e.Details = map[string]any{"candidates": names}
	if len(names) > 0 {
		e.Message += ": " + strings.Join(names[:min(len(names), maxCandidates)], ", ")
		e.Hint = "write the whole id, for example " + names[0]
	}
	return e
}

// nearestTool returns the id of the tool whose name is most similar to a misspelled one, or
// "" if none is similar. If the spelling has a namespace, only its tools count. A tool with
// the same words in another order, such as read_file for file_read, takes precedence. A
// search does not replace this: it finds words, but no misspelled ones.
func (c *Catalog) nearestTool(spelling string, visible func(*Entry) bool) string {
	namespace, name, ok := strings.Cut(spelling, ":")
	if !ok {
		namespace, name = "", spelling
	}
	var names []string
	ids := map[string]string{}
	typed := wordsOf(spelling)
	for _, e := range c.All(visible) {
		id := e.Tool.ID
		if slices.Equal(typed, wordsOf(id.Namespace+":"+id.Name)) {
			return id.Namespace + ":" + id.Name
		}
		if (!ok || id.Namespace == namespace) && ids[id.Name] == "" {
			names = append(names, id.Name)
			ids[id.Name] = id.Namespace + ":" + id.Name
		}
	}
	near, ok := nearest.Of(name, names)
	if !ok { // it permits no typing error in a name of two letters, such as lg for log
		if at := slices.IndexFunc(names, func(other string) bool { return len(other) > 2 && nearest.IsTypo(name, other) }); at >= 0 {
			near = names[at]
		}
	}
	return ids[near]
}

// wordsOf returns the words of a name in alphabetical order.
func wordsOf(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	slices.Sort(words)
	return words
}

// inOtherNamespace returns a function that reports whether a hit is in another namespace than
// the one in the spelling, or the one most similar to it. If no namespace is similar, hits
// with the name in the spelling do not count as being in another one.
func (c *Catalog) inOtherNamespace(spelling string, visible func(*Entry) bool) func(toolroom.Hit) bool {
	namespace, name, ok := strings.Cut(spelling, ":")
	if !ok {
		return func(toolroom.Hit) bool { return false }
	}
	namespaces := map[string]bool{}
	for _, e := range c.All(visible) {
		namespaces[e.Tool.ID.Namespace] = true
	}
	if !namespaces[namespace] {
		if near, ok := nearest.Of(namespace, slices.Sorted(maps.Keys(namespaces))); ok {
			namespace = near
		}
	}
	return func(h toolroom.Hit) bool {
		ns, tool, _ := strings.Cut(h.ID, ":")
		return ns != namespace && (namespaces[namespace] || tool != name)
	}
}

// toolsOf returns the ids of a namespace's tools.
func (c *Catalog) toolsOf(namespace string, visible func(*Entry) bool) []string {
	var ids []string
	for _, e := range c.All(visible) {
		if id := e.Tool.ID; id.Namespace == namespace {
			ids = append(ids, id.Namespace+":"+id.Name)
		}
	}
	return ids
}

// NotFound returns the error of [Catalog.Resolve] for a spelling that names no tool.
func (c *Catalog) NotFound(spelling string, visible func(*Entry) bool) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %q", spelling)
	e.Phase = toolroom.PhaseResolve
	if tools := c.toolsOf(spelling, visible); len(tools) > 0 {
		e.Details = map[string]any{"nearest": tools[:min(len(tools), maxCandidates)]}
		e.Hint = fmt.Sprintf("%s is a namespace; its tools: %s", spelling, strings.Join(tools[:min(len(tools), maxCandidates)], ", "))
		if len(tools) > maxCandidates {
			e.Hint += ", …"
		}
		return e
	}
	if namespace, _, _ := strings.Cut(spelling, ":"); len(c.toolsOf(namespace, nil)) == 0 {
		if e.Hint = c.hintMissing(namespace); e.Hint != "" {
			return e
		}
	}
	found := c.Search(spelling, SearchOptions{Limit: maxCandidates, View: View{Visible: visible}})
	// A match in the description alone does not make a tool a likely candidate.
	found.Hits = slices.DeleteFunc(found.Hits, func(h toolroom.Hit) bool {
		return !slices.ContainsFunc(h.Why, func(m toolroom.Match) bool { return m.Field == "name" || m.Field == "title" })
	})
	found.Hits = slices.DeleteFunc(found.Hits, c.inOtherNamespace(spelling, visible))
	similar := c.nearestTool(spelling, visible)
	if len(found.Hits) == 0 && similar == "" {
		e.Hint = fmt.Sprintf("%d tools are here: search for what you want to do", len(c.All(visible)))
		e.CLIHint = "toolroom search WORDS, or toolroom tools"
		return e
	}
	var names []string
	if similar != "" {
		names = append(names, similar)
	}
	for _, h := range found.Hits {
		if h.ID != similar && len(names) < maxCandidates {
			names = append(names, h.ID)
		}
	}
	e.Details = map[string]any{"nearest": names}
	e.Hint = "did you mean " + strings.Join(names, ", ") + "?"
	return e
}

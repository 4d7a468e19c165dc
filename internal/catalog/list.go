package catalog

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Page sizes of lists.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// ListOptions are options of [Catalog.List].
type ListOptions struct {
	// Cursor continues a list. Empty starts one.
	Cursor string
	// Limit is the page size, at most MaxPage. The default is DefaultPage.
	Limit     int
	Namespace string
	Hidden    bool // include hidden tools
	View
}

// View is what a caller sees of the catalog. The zero View shows all entries as they are.
type View struct {
	// Visible reports whether the caller may see an entry; nil shows all. In a search it
	// must not use the catalog.
	Visible func(*Entry) bool
	// As returns the version of an entry that serves the caller; nil changes none. It is
	// called for visible entries, and in a search must not use the catalog either.
	As func(*Entry) *Entry
}

func (v View) shows(e *Entry) bool { return v.Visible == nil || v.Visible(e) }

func (v View) as(e *Entry) *Entry {
	if v.As == nil {
		return e
	}
	return v.As(e)
}

// Filter returns a view that shows only those entries of v for which show returns true.
func (v View) Filter(show func(*Entry) bool) View {
	outer := v
	v.Visible = func(e *Entry) bool { return outer.shows(e) && show(e) }
	return v
}

// Apply returns the version of e that the view shows, or nil if it hides e.
func (v View) Apply(e *Entry) *Entry {
	if !v.shows(e) {
		return nil
	}
	return v.as(e)
}

// Page is a part of the list, in the order of ids.
type Page struct {
	Entries []*Entry
	// Next is the cursor of the next page, empty at the end.
	Next string
}

// List returns one page of the tools. A cursor is valid for one set of tools: after a
// change List returns an error with code invalid_cursor, so that a complete list has
// neither gaps nor repetitions.
func (c *Catalog) List(o ListOptions) (Page, error) {
	ids, fingerprint := c.order()
	start, err := cursorStart(o, ids, fingerprint)
	if err != nil {
		return Page{}, err
	}
	limit := o.Limit
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)

	var page Page
	for at := start; at < len(ids); at++ {
		if o.Namespace != "" && ids[at].Namespace != o.Namespace {
			continue
		}
		e := c.entryOf(ids[at])
		if e == nil || e.Tool.Hidden && !o.Hidden || !o.shows(e) {
			continue
		}
		if len(page.Entries) == limit {
			page.Next = cursor(fingerprint, o.Namespace, ids[at])
			break
		}
		page.Entries = append(page.Entries, o.as(e))
	}
	return page, nil
}

// All returns the whole list, for callers that do not page.
func (c *Catalog) All(visible func(*Entry) bool) []*Entry {
	ids, _ := c.order()
	entries := make([]*Entry, 0, len(ids))
	c.mu.RLock()
	for _, id := range ids {
		if e := c.serving(id); e != nil && !e.Tool.Hidden {
			entries = append(entries, e)
		}
	}
	c.mu.RUnlock()
	if visible == nil {
		return entries
	}
	// Without the lock, because visible may use the catalog, and a read lock that is taken
	// twice waits forever if a writer has come in between.
	return slices.DeleteFunc(entries, func(e *Entry) bool { return !visible(e) })
}

// Shown returns the whole list as a caller sees it.
func (c *Catalog) Shown(v View) []*Entry {
	entries := c.All(v.Visible)
	for i, e := range entries {
		entries[i] = v.as(e)
	}
	return entries
}

// Namespaces counts the visible tools of each namespace.
func (c *Catalog) Namespaces(visible func(*Entry) bool) map[string]int {
	counts := map[string]int{}
	for _, e := range c.All(visible) {
		counts[e.Tool.ID.Namespace]++
	}
	return counts
}

// A cursor consists of the fingerprint of the list, the namespace that filters it, and
// the next id. It contains no secrets, so it is encoded and not sealed.
func cursor(fingerprint, namespace string, next toolroom.ID) string {
	text := strings.Join([]string{"1", fingerprint, namespace, next.String()}, " ")
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func cursorStart(o ListOptions, ids []toolroom.ID, fingerprint string) (int, error) {
	if o.Cursor == "" {
		return 0, nil
	}
	refuse := func(reason string) error {
		e := toolroom.Errorf(toolroom.CodeInvalidCursor, "the cursor is not valid: %s", reason)
		return e.WithHint("start the list again without a cursor")
	}
	text, err := base64.RawURLEncoding.DecodeString(o.Cursor)
	if err != nil {
		return 0, refuse("it was not made here")
	}
	parts := strings.Split(string(text), " ")
	if len(parts) != 4 || parts[0] != "1" {
		return 0, refuse("it was not made here")
	}
	if parts[1] != fingerprint {
		return 0, refuse("the tools have changed since")
	}
	if parts[2] != o.Namespace {
		return 0, refuse(fmt.Sprintf("it belongs to a list of namespace %q", parts[2]))
	}
	next, err := toolroom.ParseID(parts[3])
	if err != nil {
		return 0, refuse("it was not made here")
	}
	at, _ := slices.BinarySearchFunc(ids, next, compareIDs)
	return at, nil
}

// ShownName returns the name of a tool in a list for models: its bare name if the tool
// requests that (or all is set) and the name is unambiguous, else the name with the
// namespace. Both resolve to the tool.
func (c *Catalog) ShownName(e *Entry, all bool) string {
	bare := e.Tool.ID.Name
	if !all && !e.Tool.Plain || !toolroom.IsModelName(bare) {
		return e.ModelName
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.byName[bare]) > 1 { // it is ambiguous; skip the lookup, because there may be hundreds
		return e.ModelName
	}
	if meant, err := c.meanings(bare); err != nil || len(meant) != 1 || meant[0] != e.Tool.ID.Unversioned() {
		return e.ModelName
	}
	return bare
}

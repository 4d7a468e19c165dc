package room

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/source"
)

// SearchOptions are options of [Room.Search].
type SearchOptions struct {
	// Limit is the maximum number of hits, at most 100. The default is 10.
	Limit     int
	Namespace string
	// Form is the form of the ready call in each hit. The default is the command line's.
	Form toolroom.Form
}

// Search ranks the tools that who may call for a query in natural language. For a blank
// query it returns the first tools in the order of ids.
func (r *Room) Search(who toolroom.Identity, query string, o SearchOptions) toolroom.Found {
	return r.app.Search(who, query, catalog.SearchOptions{Limit: o.Limit, Namespace: o.Namespace, Form: o.Form})
}

// ListOptions are options of [Room.Tools].
type ListOptions struct {
	// Cursor continues a list. Empty starts one.
	Cursor string
	// Limit is the page size, at most 1,000. The default is 100.
	Limit     int
	Namespace string
	// Hidden includes tools that lists leave out.
	Hidden bool
}

// Tools lists the tools that who may call. A cursor is valid for one set of tools: after a
// change Tools returns an error, so that a complete list has neither gaps nor repetitions.
func (r *Room) Tools(who toolroom.Identity, o ListOptions) (toolroom.Page, error) {
	list, err := r.app.Tools(who, catalog.ListOptions{Cursor: o.Cursor, Limit: o.Limit, Namespace: o.Namespace, Hidden: o.Hidden})
	if err != nil {
		return toolroom.Page{}, err
	}
	page := toolroom.Page{Tools: make([]toolroom.Tool, len(list.Entries)), Next: list.Next}
	for i, e := range list.Entries {
		page.Tools[i] = e.Tool
	}
	return page, nil
}

// Describe returns the description of a tool that who may call. An empty level means
// [toolroom.LevelSchema], an empty form [toolroom.FormCLI].
func (r *Room) Describe(ctx context.Context, who toolroom.Identity, tool string, level toolroom.Level, form toolroom.Form) (*toolroom.Description, error) {
	return r.app.Describe(ctx, who, tool, level, form)
}

// OnChange calls f with the changes of the room's tools, in order, until stop is called.
// Changes that come within 150 ms of one another come together. f is not called
// concurrently; while it runs, later changes wait.
func (r *Room) OnChange(f func([]toolroom.Change)) (stop func()) { return r.app.OnChange(f) }

// SourceOptions configure a source that the program adds.
type SourceOptions struct {
	// Plain shows the source's tools and prompts under their bare names if these are
	// unique.
	Plain bool
}

// AddSource adds src under the namespace name, besides the sources of the config. Its tools
// must have that namespace. The room closes src. The error is a conflict if the name is in
// use or reserved.
func (r *Room) AddSource(name string, src source.Source, o SourceOptions) error {
	return r.app.AddSource(name, src, app.SourceOptions(o))
}

// Load waits until the named sources, or all of them, have been listed, now or in an earlier
// run. The error joins all failures; the other sources are loaded.
func (r *Room) Load(ctx context.Context, names ...string) error { return r.app.Load(ctx, names...) }

// Sources returns the status of all configured sources, sorted by name.
func (r *Room) Sources() []source.Status { return r.app.Sources() }

// Login lets a person log in to a source for an identity. visit shows the person the
// address to open, and returns the one that the browser was sent back to, at redirect. The
// tokens are stored as a secret. The error is not_found if the source is not configured,
// and unsupported if it has no login.
func (r *Room) Login(ctx context.Context, name string, who toolroom.Identity, redirect string, visit func(ctx context.Context, address string) (back string, err error)) error {
	return r.app.Login(ctx, name, who, redirect, visit)
}

package run

import (
	"context"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
)

// Find returns the visible tool that a spelling names. If the catalog does not have it,
// Find lists the source that the spelling names, which may take as long as starting its
// server. If visible is nil, all tools are visible.
func (r *Runner) Find(ctx context.Context, spelling string, visible func(*catalog.Entry) bool) (*catalog.Entry, error) {
	return r.discovering(ctx, spelling, func() (*catalog.Entry, error) { return r.Lookup(spelling, visible) })
}

// Lookup is like Find, and lists no source.
func (r *Runner) Lookup(spelling string, visible func(*catalog.Entry) bool) (*catalog.Entry, error) {
	entry, err := r.Catalog.Resolve(spelling, visible)
	if r.Releases == nil || toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return entry, err
	}
	// The spelling may name a version.
	if version, refused := r.Releases.Snapshot().Serve(&toolroom.Call{Tool: spelling}, nil); version != nil || refused != nil {
		return version, refused
	}
	return entry, err
}

// discovering returns what find returns. If that is that the tool was not found, it lists
// the source that the spelling names and calls find again.
func (r *Runner) discovering(ctx context.Context, spelling string, find func() (*catalog.Entry, error)) (*catalog.Entry, error) {
	entry, err := find()
	if r.Discover == nil || toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return entry, err
	}
	unlisted := r.Discover(ctx, spelling)
	entry, err = find()
	if unlisted != nil && toolroom.CodeOf(err) == toolroom.CodeToolNotFound {
		return nil, unlisted // the source may have the tool
	}
	return entry, err
}

// resolve finds the tool. A tool that calls itself is found, but refused.
func (c *call) resolve() (*resolved, error) {
	r := c.runner
	entry, err := r.discovering(c.ctx, c.request.Tool, c.find)
	if err != nil {
		return nil, err
	}
	c.tool = entry.ID
	found := &resolved{call: c, entry: entry}
	for above := c.around; above != nil; above = above.around {
		if above.entry == entry {
			e := toolroom.Errorf(toolroom.CodeBudgetExceeded, "%s calls itself", c.tool)
			e.Details = map[string]any{"cycle": c.path()}
			return found, e.WithHint("a tool may not be called from inside its own call; break the cycle")
		}
	}
	return found, nil
}

// find returns the tool that the request means, in the version that serves the call.
func (c *call) find() (*catalog.Entry, error) {
	r := c.runner
	entry, err := r.Catalog.Resolve(c.request.Tool, func(e *catalog.Entry) bool { return r.Visible(c.request.Identity)(e) })
	if c.scope.releases == nil || err != nil && toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		return entry, err
	}
	if chosen, refused := c.scope.releases.Serve(&c.request, entry); chosen != nil || refused != nil {
		return chosen, refused
	}
	return entry, err
}

// path returns the tools from the outermost call down to this one.
func (c *call) path() []string {
	path := []string{c.tool}
	for above := c.around; above != nil; above = above.around {
		path = append(path, above.tool)
	}
	slices.Reverse(path)
	return path
}

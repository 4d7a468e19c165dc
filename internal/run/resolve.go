package run

import (
	"context"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
)

// Find returns the tool that would serve a call. It reads the call's tool, caller and
// environment. If the catalog does not have the tool, Find lists the source that the spelling
// names, which may take as long as starting its server. Find asks policy only which names an
// error may contain.
func (r *Runner) Find(ctx context.Context, call *toolroom.Call) (*catalog.Entry, error) {
	return r.findOrDiscover(ctx, call.Tool, func() (*catalog.Entry, error) { return r.LookupOffered(ctx, call) })
}

// WithOffer limits the tools that calls with ctx can find, and that their errors name, to those
// that offers accepts. It does not limit child calls.
func WithOffer(ctx context.Context, offers func(*catalog.Entry) bool) context.Context {
	return withScope(ctx, func(s *scope) { s.offers = offers })
}

// Lookup is like Find, but lists no source.
func (r *Runner) Lookup(call *toolroom.Call) (*catalog.Entry, error) {
	return r.LookupOffered(context.Background(), call)
}

// LookupOffered is Lookup among the tools that [WithOffer] has allowed for ctx.
func (r *Runner) LookupOffered(ctx context.Context, call *toolroom.Call) (*catalog.Entry, error) {
	var releases ReleaseSnapshot
	if r.Releases != nil {
		releases = r.Releases.Snapshot()
	}
	return r.lookup(call, releases, offerOf(ctx))
}

// offerOf returns the function that [WithOffer] has set, or nil if ctx is that of a call.
func offerOf(ctx context.Context) func(*catalog.Entry) bool {
	if s := scopeOf(ctx); s.runner == nil {
		return s.offers
	}
	return nil
}

// lookup returns the tool that serves a call, among those that are offered; nil offers all.
func (r *Runner) lookup(call *toolroom.Call, releases ReleaseSnapshot, offers func(*catalog.Entry) bool) (*catalog.Entry, error) {
	if call.Environment == "" && call.Identity.Environment != "" {
		of := *call
		of.Environment = call.Identity.Environment
		call = &of
	}
	visible := func(e *catalog.Entry) bool {
		return r.View(call.Identity, call.Environment).Visible(e) && (offers == nil || offers(e))
	}
	entry, err := r.Catalog.Resolve(call.Tool, visible)
	if releases != nil && (err == nil || toolroom.CodeOf(err) == toolroom.CodeToolNotFound) {
		// The spelling may name a version.
		if chosen, refused := releases.Serve(call, entry); chosen != nil || refused != nil {
			entry, err = chosen, refused
		}
	}
	if err == nil && offers != nil && !offers(entry) {
		return nil, r.Catalog.NotFound(call.Tool, visible)
	}
	return entry, err
}

// findOrDiscover calls find. If find returns tool_not_found, it lists the source that the
// spelling names and calls find again.
func (r *Runner) findOrDiscover(ctx context.Context, spelling string, find func() (*catalog.Entry, error)) (*catalog.Entry, error) {
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

// resolve finds the tool. A tool that calls itself is returned with an error.
func (c *call) resolve() (*resolvedCall, error) {
	r := c.runner
	entry, err := r.findOrDiscover(c.ctx, c.request.Tool, c.find)
	if err != nil {
		return nil, err
	}
	c.tool = entry.ID
	found := &resolvedCall{call: c, entry: entry}
	for above := c.parent; above != nil; above = above.parent {
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
	offers := c.scope.offers
	if c.parent != nil {
		offers = nil
	}
	entry, err := c.runner.lookup(&c.request, c.scope.releases, offers)
	if err == nil && c.parent != nil {
		err = c.checkUnchanged(entry)
	}
	return entry, err
}

// checkUnchanged returns an error if the tool's definition has changed since the outermost call
// began.
func (c *call) checkUnchanged(entry *catalog.Entry) error {
	if c.scope.releases == nil {
		return nil
	}
	return c.scope.releases.CheckUnchanged(entry)
}

// path returns the tools from the outermost call down to this one.
func (c *call) path() []string {
	path := []string{c.tool}
	for above := c.parent; above != nil; above = above.parent {
		path = append(path, above.tool)
	}
	slices.Reverse(path)
	return path
}

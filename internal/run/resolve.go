package run

import (
	"context"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
)

// Find returns the tool that would serve a call: of the call it looks at the tool, the caller
// and the environment. If the catalog does not have the tool, Find lists the source that the
// spelling names, which may take as long as starting its server. Policy is asked only for the
// names in errors.
func (r *Runner) Find(ctx context.Context, call *toolroom.Call) (*catalog.Entry, error) {
	return r.discovering(ctx, call.Tool, func() (*catalog.Entry, error) { return r.LookupOffered(ctx, call) })
}

// WithOffer limits the tools that calls with ctx find, and that their errors name, to those
// that a surface offers. The calls that tools make find all tools.
func WithOffer(ctx context.Context, offers func(*catalog.Entry) bool) context.Context {
	return withScope(ctx, func(s *scope) { s.offers = offers })
}

// Lookup is like Find, and lists no source.
func (r *Runner) Lookup(call *toolroom.Call) (*catalog.Entry, error) {
	return r.LookupOffered(context.Background(), call)
}

// LookupOffered is Lookup within the offer of ctx, see [WithOffer].
func (r *Runner) LookupOffered(ctx context.Context, call *toolroom.Call) (*catalog.Entry, error) {
	var releases ReleaseSnapshot
	if r.Releases != nil {
		releases = r.Releases.Snapshot()
	}
	return r.lookup(call, releases, offerOf(ctx))
}

// offerOf returns what [WithOffer] has set, or nil inside of calls.
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
	offers := c.scope.offers
	if c.around != nil {
		offers = nil
	}
	entry, err := c.runner.lookup(&c.request, c.scope.releases, offers)
	if err == nil && c.around != nil {
		err = c.keep(entry)
	}
	return entry, err
}

// keep refuses a tool whose definition is another one than when the outermost call began.
func (c *call) keep(entry *catalog.Entry) error {
	if c.scope.releases == nil {
		return nil
	}
	return c.scope.releases.Keep(entry)
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

package app

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// approvalTerms returns the approval terms of the current config for a tool.
func (a *App) approvalTerms(tool string) toolroom.ApprovalTerms {
	c := a.Config()
	return c.Approvals.Terms(a.patternMatcher(a.toolNamed(tool)))
}

// toolNamed returns the tool of an id, or nil.
func (a *App) toolNamed(id string) *toolroom.Tool {
	if e, err := a.catalog.Resolve(id, nil); err == nil {
		return &e.Tool
	}
	t := &toolroom.Tool{}
	if parsed, err := toolroom.ParseID(id); err == nil {
		t.ID = parsed
	}
	return t
}

// patternMatcher returns a function that reports whether a pattern matches t. The config has
// validated all patterns.
func (a *App) patternMatcher(t *toolroom.Tool) func(pattern string) bool {
	groups := a.Config().Tools.AllGroups()
	return func(text string) bool {
		p, err := policy.ParsePattern(text, groups)
		return err == nil && p.Matches(t)
	}
}

// preview returns the source's preview of a call. If the source has none, it returns a
// preview according to the config's list of tools that write files.
func (a *App) preview(ctx context.Context, t *toolroom.Tool, from source.Source, req *source.Request) (source.Preview, error) {
	var known source.Preview
	var err error
	if p, ok := source.As[source.Predictor](from); ok {
		known, err = p.Preview(ctx, req)
	}
	if err != nil || known.Diff != "" {
		return known, err
	}
	selects := a.patternMatcher(t)
	for _, w := range a.Config().Approvals.Writes {
		if !selects(w.Match) {
			continue
		}
		effect, change, err := approval.FileWrite{Root: a.resolvePath(w.Root), Path: w.Path, Content: w.Content}.Show(req.Arguments)
		if effect != "" {
			known.Effects = append(known.Effects, effect)
		}
		known.Diff = change
		return known, err
	}
	return known, nil
}

// Approvals lists the approvals in a state; an empty state lists all.
func (a *App) Approvals(ctx context.Context, state toolroom.ApprovalState) ([]*toolroom.Approval, error) {
	return a.approvals.List(ctx, state)
}

// Approval returns one approval.
func (a *App) Approval(ctx context.Context, id string) (*toolroom.Approval, error) {
	return a.approvals.Get(ctx, id)
}

// Answer answers an approval. An approval can be answered only once.
func (a *App) Answer(ctx context.Context, id string, answer toolroom.Answer) (*toolroom.Approval, error) {
	return a.approvals.Answer(ctx, id, answer)
}

// Grants lists the grants: approvals for more than one call.
func (a *App) Grants(ctx context.Context) ([]*toolroom.Grant, error) { return a.approvals.Grants(ctx) }

// RemoveGrant removes a grant.
func (a *App) RemoveGrant(ctx context.Context, id string) error {
	return a.approvals.RemoveGrant(ctx, id)
}

// webhooks returns the webhooks of the current config with their secrets resolved.
func (a *App) webhooks(ctx context.Context) ([]approval.Hook, error) {
	var hooks []approval.Hook
	for _, h := range a.Config().Approvals.Webhooks {
		headers, err := a.resolver.ExpandAll(ctx, h.Headers)
		if err != nil {
			return nil, err
		}
		// The URL may contain a token, too, as those of chat services do.
		texts, err := a.resolver.ExpandAll(ctx, map[string]string{"secret": h.Secret, "url": h.URL})
		if err != nil {
			return nil, err
		}
		hooks = append(hooks, approval.Hook{
			Name: h.Name, URL: texts["url"], PublicURL: h.PublicURL, Headers: headers, Secret: texts["secret"],
		})
	}
	return hooks, nil
}

package app

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// approvalTerms returns the approval terms of the current config for a tool.
func (r *App) approvalTerms(tool string) toolroom.ApprovalTerms {
	c := r.Config()
	return c.Approvals.Terms(r.selects(r.toolNamed(tool)))
}

func (r *App) toolNamed(id string) *toolroom.Tool {
	if e, err := r.catalog.Resolve(id, nil); err == nil {
		return &e.Tool
	}
	t := &toolroom.Tool{}
	if parsed, err := toolroom.ParseID(id); err == nil {
		t.ID = parsed
	}
	return t
}

// selects returns a function that reports whether a pattern matches t. The config has
// validated all patterns.
func (r *App) selects(t *toolroom.Tool) func(pattern string) bool {
	groups := r.Config().Tools.AllGroups()
	return func(text string) bool {
		p, err := policy.ParsePattern(text, groups)
		return err == nil && p.Matches(t)
	}
}

// preview returns the source's preview of a call. If the source has none, it returns a
// preview according to the config's list of tools that write files.
func (r *App) preview(ctx context.Context, t *toolroom.Tool, from source.Source, req *source.Request) (source.Preview, error) {
	var known source.Preview
	var err error
	if p, ok := from.(source.Previewer); ok {
		known, err = p.Preview(ctx, req)
	}
	if err != nil || known.Diff != "" {
		return known, err
	}
	selects := r.selects(t)
	for _, w := range r.Config().Approvals.Writes {
		if !selects(w.Match) {
			continue
		}
		effect, change, err := approval.FileWrite{Root: r.folder(w.Root), Path: w.Path, Content: w.Content}.Show(req.Arguments)
		if effect != "" {
			known.Effects = append(known.Effects, effect)
		}
		known.Diff = change
		return known, err
	}
	return known, nil
}

// Preview forwards to the source, if it can preview calls.
func (m *sourceManager) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	if p, ok := m.src.(source.Previewer); ok {
		return p.Preview(ctx, req)
	}
	return source.Preview{}, nil
}

// Preview forwards to the source, if it can preview calls.
func (s *selected) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	if p, ok := s.Source.(source.Previewer); ok {
		return p.Preview(ctx, req)
	}
	return source.Preview{}, nil
}

// Approvals lists the approvals in a state; an empty state lists all.
func (r *App) Approvals(ctx context.Context, state toolroom.ApprovalState) ([]*toolroom.Approval, error) {
	return r.approvals.List(ctx, state)
}

// Approval returns one approval.
func (r *App) Approval(ctx context.Context, id string) (*toolroom.Approval, error) {
	return r.approvals.Get(ctx, id)
}

// Answer answers an approval. An approval can be answered only once.
func (r *App) Answer(ctx context.Context, id string, a toolroom.Answer) (*toolroom.Approval, error) {
	return r.approvals.Answer(ctx, id, a)
}

// Grants lists the grants: approvals for more than one call.
func (r *App) Grants(ctx context.Context) ([]*toolroom.Grant, error) { return r.approvals.Grants(ctx) }

// RemoveGrant removes a grant.
func (r *App) RemoveGrant(ctx context.Context, id string) error {
	return r.approvals.RemoveGrant(ctx, id)
}

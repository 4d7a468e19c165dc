package room

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// approvalTerms are those of the config in force for a tool.
func (r *Room) approvalTerms(tool string) approval.Terms {
	c := r.Config()
	return c.Approvals.Terms(r.selects(r.toolNamed(tool)))
}

func (r *Room) toolNamed(id string) *toolroom.Tool {
	if e, err := r.catalog.Resolve(id, nil); err == nil {
		return &e.Tool
	}
	t := &toolroom.Tool{}
	if parsed, err := toolroom.ParseID(id); err == nil {
		t.ID = parsed
	}
	return t
}

// selects reads patterns that the config has checked.
func (r *Room) selects(t *toolroom.Tool) func(pattern string) bool {
	groups := r.Config().Tools.AllGroups()
	return func(text string) bool {
		p, err := policy.ParsePattern(text, groups)
		return err == nil && p.Matches(t)
	}
}

// preview is what the source of a tool says that a call would do, or else what
// the config says of tools that write files.
func (r *Room) preview(ctx context.Context, t *toolroom.Tool, from source.Source, req *source.Request) (source.Preview, error) {
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

// Preview asks a source that can say what a call would do.
func (h *host) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	if p, ok := h.src.(source.Previewer); ok {
		return p.Preview(ctx, req)
	}
	return source.Preview{}, nil
}

// Preview passes on to a source that can say what a call would do.
func (s *selected) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	if p, ok := s.Source.(source.Previewer); ok {
		return p.Preview(ctx, req)
	}
	return source.Preview{}, nil
}

// Approvals lists the questions in a state; empty means all.
func (r *Room) Approvals(ctx context.Context, state approval.State) ([]*approval.Approval, error) {
	return r.desk.List(ctx, state)
}

// Approval is one question.
func (r *Room) Approval(ctx context.Context, id string) (*approval.Approval, error) {
	return r.desk.Get(ctx, id)
}

// Answer answers a question, once.
func (r *Room) Answer(ctx context.Context, id string, a approval.Answer) (*approval.Approval, error) {
	return r.desk.Answer(ctx, id, a)
}

// Grants lists what people have approved for more than one call.
func (r *Room) Grants(ctx context.Context) ([]*approval.Grant, error) { return r.desk.Grants(ctx) }

// RemoveGrant takes one of them back.
func (r *Room) RemoveGrant(ctx context.Context, id string) error { return r.desk.RemoveGrant(ctx, id) }

package room

import (
	"context"

	"github.com/toolroom/toolroom"
)

// Approvals lists the approvals in a state; an empty state lists all.
func (r *Room) Approvals(ctx context.Context, state toolroom.ApprovalState) ([]*toolroom.Approval, error) {
	return r.app.Approvals(ctx, state)
}

// Approval returns one approval, or an error with code not_found.
func (r *Room) Approval(ctx context.Context, id string) (*toolroom.Approval, error) {
	return r.app.Approval(ctx, id)
}

// Answer answers an approval for a person. An approval can be answered only once. Who may
// answer is decided by its terms.
func (r *Room) Answer(ctx context.Context, id string, a toolroom.Answer) (*toolroom.Approval, error) {
	return r.app.Answer(ctx, id, a)
}

// Grants lists the grants: approvals for more than one call.
func (r *Room) Grants(ctx context.Context) ([]*toolroom.Grant, error) { return r.app.Grants(ctx) }

// RemoveGrant removes a grant.
func (r *Room) RemoveGrant(ctx context.Context, id string) error { return r.app.RemoveGrant(ctx, id) }

package api

import (
	"context"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type grantList struct {
	Rules []*toolroom.Grant `json:"rules"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

func (s *Server) listGrants(ctx context.Context, in *Paging) (*jsonOutput[grantList], error) {
	grants, err := s.grants(ctx)
	if err != nil {
		return nil, err
	}
	slices.Reverse(grants)
	grants, next, err := Page(grants, *in, func(g *toolroom.Grant) string { return g.ID })
	return &jsonOutput[grantList]{grantList{Rules: grants, Next: next}}, err
}

// grants returns the grants that the caller may see: its own, or all for operators.
func (s *Server) grants(ctx context.Context) ([]*toolroom.Grant, error) {
	if s.o.Approvals == nil {
		return nil, noApprovals()
	}
	all, err := s.o.Approvals.Grants(ctx)
	if err != nil {
		return nil, err
	}
	seen := []*toolroom.Grant{}
	for _, g := range all {
		if who := auth.Identity(ctx); auth.IsOperator(who) || identity.Reaches(who, g.Identity) {
			seen = append(seen, g)
		}
	}
	return seen, nil
}

// removeGrant removes any grant that the caller may see. That is safe because a grant
// only ever permits.
func (s *Server) removeGrant(ctx context.Context, in *idInput) (*struct{}, error) {
	grants, err := s.grants(ctx)
	if err != nil {
		return nil, err
	}
	id, err := nearest.ID(in.ID, idsOf(grants, func(g *toolroom.Grant) string { return g.ID }))
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		if g.ID == id {
			return nil, s.o.Approvals.RemoveGrant(ctx, g.ID)
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "approval rule %q not found", in.ID).WithHint("list the rules: GET %s/approvals/rules", Prefix)
}

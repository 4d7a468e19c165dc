package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type grantsOutput struct {
	Body grantList
}

type grantList struct {
	Rules []*approval.Grant `json:"rules"`
}

func (s *Server) routeApprovalRules() {
	register(s, huma.Operation{
		OperationID: "list-approval-rules", Method: http.MethodGet, Path: "/approvals/rules", Tags: []string{"approvals"},
		Summary: "List what was approved for more than one call; your own, or for operators all",
	}, s.listGrants)
	register(s, huma.Operation{
		OperationID: "remove-approval-rule", Method: http.MethodDelete, Path: "/approvals/rules/{id}", Tags: []string{"approvals"},
		Summary: "Take back what was approved for more than one call", DefaultStatus: http.StatusNoContent,
	}, s.removeGrant)
}

func (s *Server) listGrants(ctx context.Context, _ *struct{}) (*grantsOutput, error) {
	grants, err := s.grants(ctx)
	if err != nil {
		return nil, err
	}
	return &grantsOutput{Body: grantList{Rules: grants}}, nil
}

// grants are those that the caller may see: of others an operator alone.
func (s *Server) grants(ctx context.Context) ([]*approval.Grant, error) {
	if s.o.Desk == nil {
		return nil, noDesk()
	}
	all, err := s.o.Desk.Grants(ctx)
	if err != nil {
		return nil, err
	}
	seen := []*approval.Grant{}
	for _, g := range all {
		if who := auth.Identity(ctx); auth.IsOperator(who) || g.Identity.Key() == who.Key() {
			seen = append(seen, g)
		}
	}
	return seen, nil
}

// removeGrant takes back what its caller may see: a rule only ever permits.
func (s *Server) removeGrant(ctx context.Context, in *idInput) (*struct{}, error) {
	grants, err := s.grants(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		if g.ID == in.ID {
			return nil, s.o.Desk.RemoveGrant(ctx, g.ID)
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no rule %q", in.ID).WithHint("GET /api/v1/approvals/rules lists them")
}

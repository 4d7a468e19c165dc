package api

import (
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Approvers is the group whose members see all approvals and may answer those
// whose terms name no other approvers.
const Approvers = "approvers"

type approvalsInput struct {
	Paging
	State toolroom.ApprovalState `query:"state" enum:"pending,approved,declined,expired,cancelled" doc:"list only approvals in this state; omit for all"`
}

type approvalList struct {
	Approvals []*toolroom.Approval `json:"approvals"`
	// Answerable are the ids of the approvals in the list that the caller may answer.
	Answerable []string `json:"answerable"`
	// Declinable are the ids of the approvals that the caller may decline. A caller who has
	// approved one may still decline it until enough people have approved.
	Declinable []string `json:"declinable"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

// AnswerRequest is a person's answer. Approve is required.
type AnswerRequest struct {
	Approve *bool                  `json:"approve"`
	Comment string                 `json:"comment,omitempty" maxLength:"2000"`
	Scope   toolroom.ApprovalScope `json:"scope,omitempty" enum:"once,call,session,always" doc:"which calls the approval covers (default once)"`
}

const maxComment = 2000

func (s *Server) listApprovals(ctx context.Context, in *approvalsInput) (*jsonOutput[approvalList], error) {
	if s.o.Approvals == nil {
		return nil, noApprovals()
	}
	all, err := s.o.Approvals.List(ctx, in.State)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(a *toolroom.Approval) bool { return !canSeeApproval(ctx, a) })
	slices.Reverse(all)
	list, next, err := Page(all, in.Paging, func(a *toolroom.Approval) string { return a.ID })
	out := approvalList{Approvals: list, Answerable: []string{}, Declinable: []string{}, Next: next}
	who, now := auth.Identity(ctx), time.Now()
	for _, a := range list {
		if approval.MayApprove(a, who, now) {
			out.Answerable = append(out.Answerable, a.ID)
		}
		if approval.MayDecline(a, who, now) {
			out.Declinable = append(out.Declinable, a.ID)
		}
	}
	return &jsonOutput[approvalList]{out}, err
}

func (s *Server) getApproval(ctx context.Context, in *idInput) (*jsonOutput[*toolroom.Approval], error) {
	a, err := s.approval(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &jsonOutput[*toolroom.Approval]{a}, nil
}

func (s *Server) approval(ctx context.Context, id string) (*toolroom.Approval, error) {
	if s.o.Approvals == nil {
		return nil, noApprovals()
	}
	a, err := s.o.Approvals.Get(ctx, id)
	if isNotFound(err) {
		all, listErr := s.o.Approvals.List(ctx, "")
		if listErr != nil {
			return nil, listErr
		}
		all = slices.DeleteFunc(slices.Clone(all), func(a *toolroom.Approval) bool { return !canSeeApproval(ctx, a) })
		full, ambiguous := nearest.ID(id, idsOf(all, func(a *toolroom.Approval) string { return a.ID }))
		if ambiguous != nil {
			return nil, ambiguous
		}
		a, err = s.o.Approvals.Get(ctx, full)
	}
	if err != nil {
		return nil, err
	}
	if !canSeeApproval(ctx, a) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "approval %q not found", id)
	}
	return a, nil
}

func (s *Server) answerApproval(ctx context.Context, in *itemInput) (*jsonOutput[*toolroom.Approval], error) {
	body, err := readJSON[AnswerRequest](&in.Exchange)
	if err != nil {
		return nil, err
	}
	if body.Approve == nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the answer does not say whether to approve").
			WithHint(`send {"approve": true} or {"approve": false}`)
	}
	if len(body.Comment) > maxComment {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the comment has %d bytes; at most %d are allowed", len(body.Comment), maxComment)
	}
	asked, err := s.approval(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	who := auth.Identity(ctx)
	answered, err := s.o.Approvals.Answer(ctx, asked.ID, toolroom.Answer{
		Approve: *body.Approve, By: who.Key(), Comment: body.Comment, Scope: body.Scope, Who: who,
	})
	if err != nil {
		return nil, err
	}
	return &jsonOutput[*toolroom.Approval]{answered}, nil
}

func canSeeApproval(ctx context.Context, a *toolroom.Approval) bool {
	who := auth.Identity(ctx)
	if !approval.WithinBounds(a, who) {
		return false
	}
	return canRead(ctx, a.Identity) || slices.Contains(who.Groups, Approvers) || approval.IsApprover(a.ApprovalTerms, who)
}

func noApprovals() error { return unsupportedError("this server asks nobody: it has no approvals") }

package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// approvalPoll is the interval at which the store is polled for approvals that other
// processes have created or changed.
const approvalPoll = 500 * time.Millisecond

func (s *Server) followApprovals(ctx context.Context, in *Exchange) (*raw, error) {
	if s.o.Approvals == nil {
		return nil, noApprovals()
	}
	return &raw{Body: func(huma.Context) {
		ctx, stop := auth.WhileValid(ctx, s.o.KeepAlive)
		defer stop()
		out := openStream(in.w, s.o.KeepAlive)
		defer out.close()
		votes := map[string]int{} // number of votes last sent, by id of pending approval
		tick := time.NewTicker(approvalPoll)
		defer tick.Stop()
		for s.sendApprovals(ctx, out, votes) == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}}, nil
}

// sendApprovals sends the approvals that have changed since the last time. If the
// store is busy, the next poll tries again; an error means that the client has gone.
func (s *Server) sendApprovals(ctx context.Context, out *stream, votes map[string]int) error {
	pending, err := s.o.Approvals.List(ctx, toolroom.ApprovalPending)
	if err != nil {
		return ctx.Err()
	}
	open := map[string]bool{}
	for _, a := range pending {
		if !canSeeApproval(ctx, a) {
			continue
		}
		open[a.ID] = true
		if n, sent := votes[a.ID]; sent && n == len(a.Votes) {
			continue
		}
		if err := out.send(string(a.State), a); err != nil {
			return err
		}
		votes[a.ID] = len(a.Votes)
	}
	for id := range votes {
		if open[id] {
			continue
		}
		a, err := s.o.Approvals.Get(ctx, id)
		if err != nil && !isNotFound(err) {
			return ctx.Err()
		}
		delete(votes, id)
		if err != nil {
			continue
		}
		if err := out.send(string(a.State), a); err != nil {
			return err
		}
	}
	return nil
}

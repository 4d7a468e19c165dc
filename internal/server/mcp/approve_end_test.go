package mcp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

// ends are the ways in which a question ends without a yes, and the code of the
// error that its call has then.
var ends = []struct {
	code string
	ttl  time.Duration
	end  func(t *testing.T, f *fixture, id string)
}{
	{"approval_declined", 0, func(t *testing.T, f *fixture, id string) {
		if _, err := f.approvals.Answer(t.Context(), id, toolroom.Answer{By: "boss"}); err != nil {
			t.Error(err)
		}
	}},
	{"approval_expired", 50 * time.Millisecond, func(*testing.T, *fixture, string) {}},
	{"cancelled", 0, func(t *testing.T, f *fixture, id string) {
		// Another process, in which the same call was given up.
		if err := f.store.CancelApproval(t.Context(), id, time.Now()); err != nil {
			t.Error(err)
		}
	}},
}

func endedApprovals(ttl time.Duration) approval.Options {
	return approval.Options{Poll: 10 * time.Millisecond, Terms: func(string) toolroom.ApprovalTerms { return toolroom.ApprovalTerms{TTL: ttl} }}
}

// question waits for the one question that was asked, in whatever state it is.
func (f *fixture) question(t *testing.T) string {
	for t.Context().Err() == nil {
		all, err := f.approvals.List(t.Context(), "")
		if err == nil && len(all) == 1 {
			return all[0].ID
		}
		time.Sleep(5 * time.Millisecond)
	}
	return ""
}

func TestAClientIsToldWhetherItsApprovalWasDeclinedExpiredOrCancelled(t *testing.T) {
	t.Parallel()
	for _, version := range []string{modern, legacy} {
		for _, e := range ends {
			t.Run(version+"/"+e.code, func(t *testing.T) {
				t.Parallel()
				f := serveWith(t, direct(t), endedApprovals(e.ttl))
				go func() { e.end(t, f, f.question(t)) }()
				r, err := f.connect(version, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete"})
				if err != nil || !r.IsError || !strings.HasPrefix(text(r), e.code+": ") || f.deleted.Load() != 0 {
					t.Errorf("got %q, %v", text(r), err)
				}
			})
			t.Run(version+"/asked in the client/"+e.code, func(t *testing.T) {
				t.Parallel()
				f := serveWith(t, direct(t), endedApprovals(e.ttl))
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					id := f.question(t)
					e.end(t, f, id)
					for t.Context().Err() == nil {
						if a, err := f.approvals.Get(t.Context(), id); err == nil && a.State != toolroom.ApprovalPending {
							return
						}
						time.Sleep(5 * time.Millisecond)
					}
				}()
				// Its user says yes when it is too late.
				late := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					select {
					case <-ended:
					case <-ctx.Done():
					}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
				}}
				r, err := f.connect(version, late).CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete"})
				if err != nil || !r.IsError || !strings.HasPrefix(text(r), e.code+": ") || f.deleted.Load() != 0 {
					t.Errorf("got %q, %v", text(r), err)
				}
			})
		}
	}
}

package mcp

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/taint"
)

// runOf is the caller's run with an id: a program that waited for a person, or a
// call in the background. It is nil where they have none of it.
func (s *Server) runOf(ctx context.Context, id string) (*run.Job, error) {
	if s.o.Runner.Jobs == nil {
		return nil, nil
	}
	job, err := s.o.Runner.Jobs.Job(ctx, id)
	switch {
	case toolroom.CodeOf(err) == toolroom.CodeNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case !identity.Reaches(s.o.Identity(ctx), job.Identity):
		return nil, nil // what belongs to others is not there
	}
	return job, nil
}

// taintReader taints the session that reads the result of a run: the result may be much older
// than the session.
func (s *Server) taintReader(ctx context.Context, job *run.Job) error {
	return s.o.Runner.TaintSession(ctx, job.Identity.Key(), taint.Of(job.Result.Labels, job.Call.Tool))
}

// runResult is the answer that the call of a run would have got, or what the run
// waits for.
func (s *Server) runResult(ctx context.Context, req *request, job *run.Job) (*result, error) {
	if job.State == toolroom.JobDone {
		if err := s.taintReader(ctx, job); err != nil {
			return failed(req, err), nil
		}
		return answer(job.Result, req.Version, nil)
	}
	waits := job.Approvals
	if len(waits) == 0 { // a call that is no program does not name its own
		asked, err := s.approvalOf(ctx, job)
		if err != nil {
			return nil, err
		}
		if asked != nil {
			waits = []string{asked.ID}
		}
	}
	return structured(req, struct {
		Run       string            `json:"run"`
		Tool      string            `json:"tool"`
		State     toolroom.JobState `json:"state"`
		Approvals []string          `json:"approvals,omitempty"`
	}{job.ID, job.Call.Tool, job.State, waits})
}

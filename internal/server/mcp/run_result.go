package mcp

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/taint"
)

// findRun returns the caller's run with an id: a program that was suspended, or a background
// call. It returns nil if the caller has no such run.
func (s *Server) findRun(ctx context.Context, id string) (*run.Job, error) {
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
		return nil, nil // the runs of other callers are reported as not found
	}
	return job, nil
}

// taintSession adds the taint labels of a run's result to the session that reads it, because
// the run may have ended before the session began.
func (s *Server) taintSession(ctx context.Context, job *run.Job) error {
	return s.o.Runner.TaintSession(ctx, job.Identity.Key(), taint.LabelsOf(job.Result.Labels, job.Call.Tool))
}

// runResult returns the result of a run as a call would have returned it, or the state of the
// run and the approvals for which it waits.
func (s *Server) runResult(ctx context.Context, req *request, job *run.Job) (*result, error) {
	if job.State == toolroom.JobDone {
		if err := s.taintSession(ctx, job); err != nil {
			return failedResult(req, err), nil
		}
		return convertResult(job.Result, req.Version, nil)
	}
	waits := job.Approvals
	if len(waits) == 0 { // only programs list their approvals
		asked, err := s.openApproval(ctx, job)
		if err != nil {
			return nil, err
		}
		if asked != nil {
			waits = []string{asked.ID}
		}
	}
	return structuredResult(req, struct {
		Run       string            `json:"run"`
		Tool      string            `json:"tool"`
		State     toolroom.JobState `json:"state"`
		Approvals []string          `json:"approvals,omitempty"`
	}{job.ID, job.Call.Tool, job.State, waits})
}

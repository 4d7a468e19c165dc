package toolflow

import (
	"context"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// manyJobs has queued jobs behind ones that are done.
type manyJobs struct {
	run.JobStore
	all []*run.Job
}

func (m manyJobs) ListJobs(_ context.Context, _ string, limit int) ([]*run.Job, error) {
	return append([]*run.Job(nil), m.all[:min(limit, len(m.all))]...), nil
}

func TestJobsBehindAThousandOthersAreListed(t *testing.T) {
	t.Parallel()
	var m manyJobs
	for range 1500 {
		m.all = append(m.all, &run.Job{Job: toolroom.Job{State: toolroom.JobDone}})
	}
	m.all = append(m.all, &run.Job{Job: toolroom.Job{ID: "call_old", State: toolroom.JobQueued}})
	s := &server{}
	s.Runner = &run.Runner{Options: run.Options{Jobs: m}}
	jobs, err := s.jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].ID != "call_old" {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

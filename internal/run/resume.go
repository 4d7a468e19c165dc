package run

import (
	"context"
	"time"

	"github.com/toolroom/toolroom"
)

// Resume waits until a job is done and returns its result. It runs the job
// itself where no other process has it; ctx may have a sink for its events (see
// [WithSink]).
func (w *Worker) Resume(ctx context.Context, id string) (*toolroom.Result, error) {
	jobs := w.runner.Jobs
	for {
		now := w.runner.Now()
		mine, err := jobs.TakeJob(ctx, id, now, now.Add(w.o.Lease))
		if err != nil {
			return nil, err
		}
		if mine != nil {
			place := make(chan struct{}, 1)
			place <- struct{}{}
			w.do(ctx, mine, place)
		}
		job, err := jobs.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		if job.State == JobDone {
			return job.Result, nil
		}
		select {
		case <-time.After(w.o.Poll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

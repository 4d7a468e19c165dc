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
	for {
		result, done, err := w.GoOn(ctx, id)
		if done || err != nil {
			return result, err
		}
	}
}

// GoOn is Resume up to the next question: it also returns, and done is false,
// when it has run the job and the job waits for a person again.
func (w *Worker) GoOn(ctx context.Context, id string) (result *toolroom.Result, done bool, err error) {
	jobs := w.runner.Jobs
	for {
		now := w.runner.Now()
		mine, err := jobs.TakeJob(ctx, id, now, now.Add(w.o.Lease))
		if err != nil {
			return nil, false, err
		}
		var last *toolroom.Result
		if mine != nil {
			place := make(chan struct{}, 1)
			place <- struct{}{}
			last = w.do(ctx, mine, place)
		}
		job, err := jobs.Job(ctx, id)
		switch {
		case err != nil:
			return nil, false, err
		case job.State == JobDone:
			return job.Result, true, nil
		case last != nil:
			return last, false, nil
		}
		select {
		case <-time.After(w.o.Poll):
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

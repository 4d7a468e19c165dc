package app

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// Jobs lists the submitted and suspended calls of one caller (see [toolroom.Identity.Key];
// empty means all callers), newest first.
func (r *App) Jobs(ctx context.Context, owner string, limit int) ([]*run.Job, error) {
	return r.store.ListJobs(ctx, owner, limit)
}

// Job returns one job, or an error with code not_found.
func (r *App) Job(ctx context.Context, id string) (*run.Job, error) { return r.store.Job(ctx, id) }

// Resume waits until a job is done, and runs it here if no other process does. sink
// receives its events while it runs here; it may be nil.
func (r *App) Resume(ctx context.Context, id string, sink func(toolroom.Event)) (*toolroom.Result, error) {
	if sink != nil {
		ctx = run.WithSink(ctx, sink)
	}
	return r.worker.Resume(ctx, id)
}

// CancelJob cancels a job, or asks the process that runs it to.
func (r *App) CancelJob(ctx context.Context, id string) error {
	return r.worker.End(ctx, id)
}

// KeepWaiting keeps suspended programs when ctx ends: they continue in the next process
// that calls Start or Resume.
func (r *App) KeepWaiting(ctx context.Context) { r.approvals.KeepOnceDone(ctx.Done()) }

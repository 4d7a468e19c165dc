package app

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// Jobs lists the submitted and suspended calls of one caller (see [toolroom.Identity.Key];
// empty means all callers), newest first.
func (a *App) Jobs(ctx context.Context, owner string, limit int) ([]*run.Job, error) {
	return a.store.ListJobs(ctx, owner, limit)
}

// Job returns one job, or an error with code not_found.
func (a *App) Job(ctx context.Context, id string) (*run.Job, error) { return a.store.Job(ctx, id) }

// Resume waits until a job is done, and runs it here if no other process does. sink
// receives its events while it runs here; it may be nil.
func (a *App) Resume(ctx context.Context, id string, sink func(toolroom.Event)) (*toolroom.Result, error) {
	if sink != nil {
		ctx = run.WithSink(ctx, sink)
	}
	return a.worker.Resume(ctx, id)
}

// CancelJob cancels a job, or asks the process that runs it to.
func (a *App) CancelJob(ctx context.Context, id string) error {
	return a.worker.CancelJob(ctx, id)
}

// Detachable returns a context for calls that are to be suspended rather than cancelled if
// ctx ends while they wait for a person. They continue in the next process that calls Start
// or Resume.
func Detachable(ctx context.Context) (context.Context, context.CancelFunc) {
	kept, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(run.ErrDetached) })
	return kept, func() { stop(); end(nil) }
}

package room

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// Jobs lists the calls of one caller (see [toolroom.Identity.Key]; empty is
// everybody) that were submitted, or wait for a person, newest first.
func (r *Room) Jobs(ctx context.Context, owner string, limit int) ([]*Job, error) {
	return r.store.ListJobs(ctx, owner, limit)
}

// Job is one of them, or an error with code not_found.
func (r *Room) Job(ctx context.Context, id string) (*Job, error) { return r.store.Job(ctx, id) }

// Resume waits until a job is done, and runs it here where no other process
// does. sink takes its events while it runs here; it may be nil.
func (r *Room) Resume(ctx context.Context, id string, sink func(toolroom.Event)) (*toolroom.Result, error) {
	if sink != nil {
		ctx = run.WithSink(ctx, sink)
	}
	return r.worker.Resume(ctx, id)
}

// CancelJob ends a job, or asks the process that has it to.
func (r *Room) CancelJob(ctx context.Context, id string) error {
	ended, err := r.runner.Withdraw(ctx, id)
	if ended || err != nil {
		return err
	}
	return r.worker.End(ctx, id)
}

// KeepWaiting keeps programs that wait for a person when ctx ends: they go on in
// the process that next calls Start or Resume.
func (r *Room) KeepWaiting(ctx context.Context) { r.desk.KeepOnceDone(ctx.Done()) }

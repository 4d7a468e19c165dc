package run_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// lockedJobs cannot store a result.
type lockedJobs struct{ *sqlite.Store }

func (lockedJobs) FinishJob(context.Context, string, int64, *toolroom.Result, time.Time) error {
	return errors.New("the database is locked")
}

func TestAResumedJobWhoseResultCannotBeStoredIsDoneAndRunOnce(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, func(o *run.Options) { o.Jobs, o.Keys = lockedJobs{store}, store })
	var ran atomic.Int64
	b.add(tool("a:it"), func(context.Context, *source.Request) (*source.Output, error) {
		ran.Add(1)
		return &source.Output{}, nil
	})
	job, err := b.Submit(t.Context(), toolroom.Call{Tool: "a:it"})
	if err != nil {
		t.Fatal(err)
	}
	worker := run.NewWorker(b.Runner, run.WorkerOptions{Lease: 300 * time.Millisecond, Poll: 10 * time.Millisecond})
	result, err := worker.Resume(t.Context(), job.ID)
	if err != nil || !result.OK() || ran.Load() != 1 {
		t.Errorf("ran %d times: %+v, %v", ran.Load(), result, err)
	}
}

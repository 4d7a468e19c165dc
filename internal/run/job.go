package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
)

// Job is a background call as a process works on it.
type Job struct {
	toolroom.Job
	// Resume is the state of a call whose source continues by itself (see
	// [source.Request]): a process that takes the job over resumes from it and does
	// not call the tool again.
	Resume json.RawMessage `json:"-"`

	// Fence is the token of the current lease. It grows with every claim; writes
	// with an older one are refused.
	Fence int64     `json:"-"`
	Lease time.Time `json:"-"`
}

// JobStore stores background calls. Its methods are safe for concurrent use, also
// by several processes on one store.
type JobStore interface {
	// CreateJob durably stores a job: queued, or already claimed with its fence and
	// lease if its state is running. An id that is taken is a conflict.
	CreateJob(ctx context.Context, j *Job) error
	// Job returns one by id, or an error with code not_found.
	Job(ctx context.Context, id string) (*Job, error)
	// ListJobs returns at most limit jobs of one owner (see [toolroom.Identity.Key];
	// empty means all owners), newest first.
	ListJobs(ctx context.Context, owner string, limit int) ([]*Job, error)
	// ClaimJob leases the oldest job that may run, until the given time, or returns
	// nil if there is none. A job may run if it is queued, if it is running with a
	// lease that ended before now, or if it is waiting with such a lease and one of
	// its approvals is no longer pending.
	ClaimJob(ctx context.Context, now, until time.Time) (*Job, error)
	// TakeJob is ClaimJob for one job: it returns nil if the job may not run now. An
	// unknown id is not_found.
	TakeJob(ctx context.Context, id string, now, until time.Time) (*Job, error)
	// WaitJob makes a running job wait for approvals, or a waiting one run again if
	// there are none. A stale fence is a conflict.
	WaitJob(ctx context.Context, id string, fence int64, approvals []string) error
	// ExtendJob extends a lease and records started. It returns an error with code
	// conflict if the fence is stale, because the job belongs to another process
	// now, or if the job is done; an unknown id is not_found.
	ExtendJob(ctx context.Context, id string, fence int64, until time.Time, started bool) error
	// FinishJob stores the one final result, with the raw message of its source. A
	// stale fence or a second result is a conflict, an unknown id not_found.
	FinishJob(ctx context.Context, id string, fence int64, result *toolroom.Result, now time.Time) error
	// CancelIdleJob stores the result of a job that no process runs: one that is
	// queued, or waiting with a lease that ended before now. It reports whether there
	// was one: false for a job that is running or done; an unknown id is not_found.
	CancelIdleJob(ctx context.Context, id string, result *toolroom.Result, now time.Time) (bool, error)
	// SweepJobs removes jobs that were done before a time and returns how many.
	SweepJobs(ctx context.Context, before time.Time) (n int64, err error)
}

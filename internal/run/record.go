package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolroom/toolroom"
)

// KeyStore remembers calls by idempotency key, per identity, so that a repeat
// returns the recorded result. Its methods are safe for concurrent use, also by
// several processes on one store.
type KeyStore interface {
	// ClaimKey records that call runs under key, durably. When the key is taken
	// it returns the record that holds it and claimed is false. A record whose
	// Expires is before now is free.
	ClaimKey(ctx context.Context, k KeyRecord, now time.Time) (held KeyRecord, claimed bool, err error)
	// FinishKey stores the result of the call that holds the key. When another
	// call holds it by now that is a conflict; when none does, not_found.
	FinishKey(ctx context.Context, identity, key, call string, result json.RawMessage) error
	// ReleaseKey frees a key whose call never started, so that a repeat runs. A
	// key that is free is no error; one that another call holds, or whose call
	// has its result, is a conflict.
	ReleaseKey(ctx context.Context, identity, key, call string) error
}

// KeyRecord is one use of an idempotency key.
type KeyRecord struct {
	Identity string
	Key      string
	// Tool and ArgumentsHash are what the key stands for; another tool or other
	// arguments under the same key are a conflict.
	Tool          string
	ArgumentsHash string
	Call          string
	// Owner is the process that runs the call. While it is alive the call may
	// still finish.
	Owner   string
	Created time.Time
	Expires time.Time
	// Result is the encoded result, empty while the call runs.
	Result json.RawMessage
}

// JobState is where an asynchronous call stands.
type JobState string

// The states of an asynchronous call.
const (
	JobQueued  JobState = "queued"
	JobRunning JobState = "running"
	// JobWaiting is a call that goes on when a person has answered.
	JobWaiting JobState = "waiting"
	JobDone    JobState = "done"
)

// Job is an asynchronous call: accepted, durable, and run once.
type Job struct {
	ID       string            `json:"id"`
	Identity toolroom.Identity `json:"identity,omitzero"`
	Call     toolroom.Call     `json:"call"`
	State    JobState          `json:"state"`
	Created  time.Time         `json:"created"`
	Finished time.Time         `json:"finished,omitzero"`
	// Started says that the tool itself may have begun: after a crash such a
	// job is repeated only where the tool's guarantee allows.
	Started bool             `json:"started,omitempty"`
	Result  *toolroom.Result `json:"result,omitempty"`
	// Answers are the methods of questions that the submitting client answers.
	Answers []string `json:"answers,omitempty"`
	// Approvals are those that a waiting job waits for.
	Approvals []string `json:"approvals,omitempty"`
	// Cancelled says that the job was asked to end.
	Cancelled bool `json:"cancelled,omitempty"`
	// Resume is the state of a call that its source goes on with by itself (see
	// [source.Request]): whoever takes the job over carries that on, and does not
	// call the tool anew.
	Resume json.RawMessage `json:"-"`

	// Fence is the token of the present lease. It grows with every claim, and
	// a write with an older one is refused.
	Fence int64     `json:"-"`
	Lease time.Time `json:"-"`
}

// JobStore holds asynchronous calls. Its methods are safe for concurrent use,
// also by several processes on one store.
type JobStore interface {
	// CreateJob stores a job, durably: queued, or, where its state is running,
	// claimed already with its fence and lease. An id that is taken is a conflict.
	CreateJob(ctx context.Context, j *Job) error
	// Job is one by id, or an error with code not_found.
	Job(ctx context.Context, id string) (*Job, error)
	// ListJobs lists those of one owner (see [toolroom.Identity.Key]; empty is
	// everybody), newest first, at most limit.
	ListJobs(ctx context.Context, owner string, limit int) ([]*Job, error)
	// ClaimJob leases the oldest job that may be run until the given time; nil
	// when there is none. A job may be run that is queued; or running with a lease
	// that ended before now; or waiting with such a lease, when one of its
	// approvals is pending no longer.
	ClaimJob(ctx context.Context, now, until time.Time) (*Job, error)
	// TakeJob is ClaimJob for one job: nil when it may not be run now. An unknown
	// id is not_found.
	TakeJob(ctx context.Context, id string, now, until time.Time) (*Job, error)
	// WaitJob makes a running job wait for approvals, or a waiting one run again
	// when there are none. A stale fence is a conflict.
	WaitJob(ctx context.Context, id string, fence int64, approvals []string) error
	// ExtendJob prolongs a lease and records started. A stale fence is an error
	// with code conflict: the job belongs to another process now. So is a job
	// that is done; an unknown id is not_found.
	ExtendJob(ctx context.Context, id string, fence int64, until time.Time, started bool) error
	// FinishJob stores the one final result, with what its source sent. A stale fence or a second result
	// is a conflict, an unknown id not_found.
	FinishJob(ctx context.Context, id string, fence int64, result *toolroom.Result, now time.Time) error
	// WithdrawJob stores the result of a job that no process has: one that is
	// queued, or waiting with a lease that ended before now. It reports whether
	// there was one: a job that runs or is done is false, an unknown id not_found.
	WithdrawJob(ctx context.Context, id string, result *toolroom.Result, now time.Time) (bool, error)
	// SweepJobs removes those that were done before a time; n is how many.
	SweepJobs(ctx context.Context, before time.Time) (n int64, err error)
}

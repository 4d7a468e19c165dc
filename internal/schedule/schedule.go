// Package schedule makes tool calls at set times. A [Schedule] is durable, and a [Service]
// in any process of a home queues its calls as background calls of the identity that made
// it. Policy, approvals and receipts apply when they run, as to calls of any other surface.
package schedule

import (
	"context"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/taint"
)

// Surface is that of scheduled calls.
const Surface = "cron"

// Missed says what happens to runs whose time passed while no process was there.
type Missed string

// The values of Missed.
const (
	// MissedOnce makes up for all missed runs with one.
	MissedOnce Missed = "once"
	// MissedSkip drops them.
	MissedSkip Missed = "skip"
	// MissedAll makes them up one after another, the last 100 at most.
	MissedAll Missed = "all"
)

// Schedule is a call that is made at set times.
type Schedule struct {
	ID string `json:"id"`
	// Name is for people.
	Name string `json:"name,omitempty"`
	// When and Zone are as in [ParseWhen].
	When string `json:"when"`
	Zone string `json:"zone"`
	// Call is the call to make. Its identity is that of the schedule.
	Call   toolroom.Call `json:"call"`
	Missed Missed        `json:"missed"`
	// Labels are the taint labels of its maker when it was made. They apply to every run.
	Labels  []taint.Label `json:"labels,omitempty"`
	Created time.Time     `json:"created"`

	// Next is the time of the next run; zero means that there is none any more.
	Next time.Time `json:"next,omitzero"`
	// Settled is the time up to which runs have been made or dropped.
	Settled time.Time `json:"settled,omitzero"`
	// Runs counts the calls that were queued, Dropped those that were missed, or left out
	// because the one before had not ended.
	Runs    int  `json:"runs"`
	Dropped int  `json:"dropped"`
	Last    *Run `json:"last,omitempty"`

	// Paused is when the schedule was paused; zero means that it is not. Next then keeps the
	// time of the run that would have been next.
	Paused time.Time `json:"paused,omitzero"`
}

// Run is the last time that a schedule was due.
type Run struct {
	// Due is when it should have run, and Queued when it was.
	Due    time.Time `json:"due"`
	Queued time.Time `json:"queued,omitzero"`
	// Call is the id of the call; empty means that none was made, and Problem says why.
	Call    string `json:"call,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Owner returns the owner for stores.
func (s *Schedule) Owner() string { return s.Call.Identity.Key() }

// Store stores schedules. Its methods are safe for concurrent use, also by several
// processes with one store.
type Store interface {
	// CreateSchedule stores a schedule durably. If its owner has limit schedules with a
	// next run, the error has code resource_limit.
	CreateSchedule(ctx context.Context, s *Schedule, limit int) error
	// Schedule returns one by id, or an error with code not_found.
	Schedule(ctx context.Context, id string) (*Schedule, error)
	// Schedules returns those of an owner, oldest first.
	Schedules(ctx context.Context, owner string) ([]*Schedule, error)
	// DueSchedules returns those whose next run is not after now, and those that have
	// settled runs after ahead, which happens if the clock was set back. It leaves out paused
	// ones.
	DueSchedules(ctx context.Context, now, ahead time.Time) ([]*Schedule, error)
	// AdvanceSchedule stores a changed schedule and queues its job, unless that is nil, in
	// one step. It reports false and does neither if the stored schedule has another next
	// run or another count of runs than was, or only one of both is paused, because another
	// process changed it, or if there is none any more.
	AdvanceSchedule(ctx context.Context, was, s *Schedule, job *run.Job) (bool, error)
	// DeleteSchedule removes a schedule. If there is none, the error has code not_found.
	DeleteSchedule(ctx context.Context, id string) error
	// SweepSchedules removes schedules without a next run that were settled before a time.
	SweepSchedules(ctx context.Context, before time.Time) error
}

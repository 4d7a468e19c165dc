package schedule

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/taint"
)

// MaxPerOwner is how many schedules with a next run one identity may have.
const MaxPerOwner = 100

const (
	// pollPeriod is how often the store is checked for runs that are due.
	pollPeriod = 500 * time.Millisecond
	// missedAfter is how late a run may be before it counts as missed.
	missedAfter = time.Minute
	// maxMadeUp is how many missed runs are made up at most.
	maxMadeUp = 100
	// minSetBack is the least amount by which the clock must have been set back for a single
	// run to be repeated when its time comes again.
	minSetBack = 3 * time.Hour
	// minAhead is the least time by which runs must be settled ahead of the clock to show
	// that it was set back.
	minAhead = time.Minute
)

// Options configure a Service. Store and Jobs are required.
type Options struct {
	Store Store
	Jobs  run.JobStore
	// Taints stores the labels of schedules for their runs; nil keeps none.
	Taints taint.Store
	// Enabled reports whether schedules may run now; nil means always.
	Enabled func() bool
	// CurrentIdentity returns the identity that calls of who have now, with a valid token, or
	// an error if who is no longer known. If it is nil, identities do not change.
	CurrentIdentity func(ctx context.Context, who toolroom.Identity) (toolroom.Identity, error)
	// Check returns an error if the call of a new schedule cannot succeed: there is no such
	// tool, its arguments do not fit, or policy denies it. Nil checks nothing.
	Check func(ctx context.Context, call toolroom.Call) error
	// OnQueued is called after a call was queued.
	OnQueued func()
	Log      *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Service keeps schedules and queues their calls.
type Service struct{ o Options }

// New returns a Service.
func New(o Options) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o}
}

// Create stores a schedule and returns it with its id and its next run. The call must have
// the identity of its maker.
func (v *Service) Create(ctx context.Context, s Schedule) (*Schedule, error) {
	when, err := ParseWhen(s.When, s.Zone)
	if err != nil {
		return nil, err
	}
	if v.o.Check != nil {
		if err := v.o.Check(ctx, s.Call); err != nil {
			return nil, err
		}
	}
	now := v.o.Now().UTC().Truncate(time.Second)
	s.ID = "cron_" + strings.ToLower(rand.Text()[:12])
	s.Created, s.Settled, s.Runs, s.Dropped, s.Last = now, now, 0, 0, nil
	s.Call.ID, s.Call.Surface, s.Call.Session = "", Surface, s.ID
	if s.Next = when.Next(now, s.Created); s.Next.IsZero() {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has passed: it is %s", s.When, now.In(when.Zone()).Format(time.RFC3339)).
			WithHint("name a later time, and its time zone")
	}
	return &s, v.o.Store.CreateSchedule(ctx, &s, MaxPerOwner)
}

// List returns the schedules that a caller may see, oldest first.
func (v *Service) List(ctx context.Context, caller toolroom.Identity) ([]*Schedule, error) {
	all, err := v.o.Store.Schedules(ctx, caller.Key())
	list := []*Schedule{}
	for _, s := range all {
		if identity.Reaches(caller, s.Call.Identity) {
			list = append(list, s)
		}
	}
	return list, err
}

// find returns a schedule that a caller may see.
func (v *Service) find(ctx context.Context, caller toolroom.Identity, id string) (*Schedule, error) {
	s, err := v.o.Store.Schedule(ctx, id)
	if err == nil && !identity.Reaches(caller, s.Call.Identity) {
		err = NotFound(id)
	}
	return s, err
}

// NotFound returns the error for an unknown id.
func NotFound(id string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "schedule %.80q not found", id).WithHint("list yours: cron:list")
}

// Delete removes a schedule of a caller. A call that runs is not cancelled.
func (v *Service) Delete(ctx context.Context, caller toolroom.Identity, id string) (*Schedule, error) {
	s, err := v.find(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	return s, v.o.Store.DeleteSchedule(ctx, id)
}

// Trigger queues the call of a schedule now, and returns the schedule. Its next run does not
// change.
func (v *Service) Trigger(ctx context.Context, caller toolroom.Identity, id string) (*Schedule, error) {
	for range changeTries {
		s, err := v.find(ctx, caller, id)
		if err != nil {
			return nil, err
		}
		if err := v.checkTrigger(ctx, caller, s); err != nil {
			return nil, err
		}
		now := v.o.Now().UTC()
		next := *s
		done, err := v.advance(ctx, s, &next, now, now)
		if done || err != nil {
			return &next, err
		}
	}
	return nil, errChanging(id)
}

// Pause stops the calls of a schedule until it is resumed, and returns the schedule. A call
// that runs is not cancelled.
func (v *Service) Pause(ctx context.Context, caller toolroom.Identity, id string) (*Schedule, error) {
	return v.change(ctx, caller, id, func(s *Schedule) error {
		if s.Next.IsZero() {
			return toolroom.Errorf(toolroom.CodeConflict, "the schedule %s has no next run", id)
		}
		if s.Paused.IsZero() {
			s.Paused = v.o.Now().UTC().Truncate(time.Second)
		}
		return nil
	})
}

// Resume lets a paused schedule make its calls again, and returns the schedule. Runs whose
// time has passed meanwhile are not made up.
func (v *Service) Resume(ctx context.Context, caller toolroom.Identity, id string) (*Schedule, error) {
	return v.change(ctx, caller, id, func(s *Schedule) error {
		if s.Paused.IsZero() {
			return nil
		}
		when, err := ParseWhen(s.When, s.Zone)
		if err != nil {
			return err
		}
		now := v.o.Now().UTC().Truncate(time.Second)
		next := when.Next(now, s.Created)
		if next.IsZero() {
			return toolroom.Errorf(toolroom.CodeConflict, "the time of %s, %s, has passed while it was paused", id, s.When).
				WithHint("delete it and make it again: cron:delete, cron:create")
		}
		s.Paused, s.Settled, s.Next = time.Time{}, now, next
		return nil
	})
}

// change stores a schedule of a caller as edit changes it, and returns it.
func (v *Service) change(ctx context.Context, caller toolroom.Identity, id string, edit func(*Schedule) error) (*Schedule, error) {
	for range changeTries {
		s, err := v.find(ctx, caller, id)
		if err != nil {
			return nil, err
		}
		next := *s
		if err := edit(&next); err != nil {
			return nil, err
		}
		done, err := v.o.Store.AdvanceSchedule(ctx, s, &next, nil)
		if done || err != nil {
			return &next, err
		}
	}
	return nil, errChanging(id)
}

// changeTries is how often a change is tried against processes that change the schedule at
// the same time.
const changeTries = 5

func errChanging(id string) error {
	return toolroom.Errorf(toolroom.CodeConflict, "the schedule %s is being changed", id).WithHint("try again")
}

// checkTrigger returns an error if a caller may not trigger a schedule now.
func (v *Service) checkTrigger(ctx context.Context, caller toolroom.Identity, s *Schedule) error {
	// The caller has all groups of the schedule; see find.
	lacks := func(group string) bool { return !slices.Contains(s.Call.Identity.Groups, group) }
	if slices.ContainsFunc(caller.Groups, lacks) {
		return toolroom.Errorf(toolroom.CodeDenied, "the groups of %s have changed since the schedule %s was made", caller, s.ID).
			WithHint("delete it and make it again: cron:delete, cron:create")
	}
	if err := v.updateIdentity(ctx, s); err != nil {
		return err
	}
	running, err := v.isRunning(ctx, s)
	if err == nil && running {
		err = toolroom.Errorf(toolroom.CodeConflict, "the last call of %s, %s, has not ended", s.ID, s.Last.Call).
			WithHint("wait for it, or cancel the call").WithCLIHint("toolroom runs cancel %s", s.Last.Call)
	}
	return err
}

// lastJob returns the job of a schedule's last call, or nil if there is none.
func (v *Service) lastJob(ctx context.Context, s *Schedule) (*run.Job, error) {
	if s.Last == nil || s.Last.Call == "" {
		return nil, nil
	}
	job, err := v.o.Jobs.Job(ctx, s.Last.Call)
	if toolroom.CodeOf(err) == toolroom.CodeNotFound {
		return nil, nil // it ended long ago and was removed
	}
	return job, err
}

// Outcome returns how the last call ended: the state of its job or the status of
// its result, and the error. It returns nothing if there is no such call any more.
func (v *Service) Outcome(ctx context.Context, s *Schedule) (status, problem string, err error) {
	job, err := v.lastJob(ctx, s)
	switch {
	case err != nil || job == nil:
		return "", "", err
	case job.State != toolroom.JobDone || job.Result == nil:
		return string(job.State), "", nil
	case job.Result.Error != nil:
		return string(job.Result.Status), job.Result.Error.Message, nil
	}
	return string(job.Result.Status), "", nil
}

func (v *Service) isRunning(ctx context.Context, s *Schedule) (bool, error) {
	job, err := v.lastJob(ctx, s)
	return job != nil && job.State != toolroom.JobDone, err
}

// updateIdentity sets the identity that the call of a schedule has now. It returns an error if
// the identity may not call any more.
func (v *Service) updateIdentity(ctx context.Context, s *Schedule) (err error) {
	if v.o.CurrentIdentity != nil {
		s.Call.Identity, err = v.o.CurrentIdentity(ctx, s.Call.Identity)
	}
	return err
}

// Run queues calls that are due until ctx ends.
func (v *Service) Run(ctx context.Context) {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		panics.Log(v.o.Log, "running schedules", func() {
			if err := v.Tick(ctx); err != nil && ctx.Err() == nil {
				v.o.Log.Error("failed to run schedules", "error", err)
			}
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Tick queues the calls that are due now.
func (v *Service) Tick(ctx context.Context) error {
	if v.o.Enabled != nil && !v.o.Enabled() {
		return nil
	}
	now := v.o.Now().UTC()
	due, err := v.o.Store.DueSchedules(ctx, now, now.Add(minAhead))
	if err != nil {
		return err
	}
	for _, s := range due {
		if err := v.settle(ctx, s, now); err != nil {
			v.o.Log.Error("failed to run a schedule", "schedule", s.ID, "error", err)
		}
	}
	return nil
}

// settle makes or drops the runs of a schedule up to now.
func (v *Service) settle(ctx context.Context, s *Schedule, now time.Time) error {
	when, err := ParseWhen(s.When, s.Zone)
	if err != nil {
		return err
	}
	next := *s
	if s.Next.After(now) { // the clock was set back
		if first := when.Next(now, s.Created); s.Settled.Sub(now) <= minSetBack && !when.Next(first, s.Created).Before(s.Settled) {
			return nil // only the run that was made already is left out
		}
		next.Settled, next.Next = now, when.Next(now, s.Created)
		_, err := v.o.Store.AdvanceSchedule(ctx, s, &next, nil)
		return err
	}
	due, dropped := v.dueRun(when, s, &next, now)
	running, err := v.isRunning(ctx, s)
	if err != nil {
		return err
	}
	if running && s.Missed == MissedAll {
		return nil // the run is made when the previous one has ended
	}
	next.Dropped += dropped
	if running {
		// The call stays the last one even if the run was missed anyway, because isRunning looks
		// at the last one.
		if due.IsZero() {
			due = next.Settled
		} else {
			next.Dropped++
		}
		last := *s.Last
		last.Problem = fmt.Sprintf("the run of %s was dropped, because this call had not ended", due.Format(time.RFC3339))
		next.Last = &last
		_, err := v.o.Store.AdvanceSchedule(ctx, s, &next, nil)
		return err
	}
	if due.IsZero() {
		next.Last = &Run{Due: next.Settled, Problem: "missed, because Toolroom was not running"}
		_, err := v.o.Store.AdvanceSchedule(ctx, s, &next, nil)
		return err
	}
	if err := v.updateIdentity(ctx, s); err != nil {
		next.Dropped++
		next.Last = &Run{Due: due, Problem: err.Error()}
		_, err := v.o.Store.AdvanceSchedule(ctx, s, &next, nil)
		return err
	}
	_, err = v.advance(ctx, s, &next, due, now)
	return err
}

// dueRun returns the time of the run to make, which is zero if it is dropped, and how many
// others are dropped. It moves next behind them.
func (v *Service) dueRun(when *When, s, next *Schedule, now time.Time) (due time.Time, dropped int) {
	times, more := runsFrom(when, s.Next, s.Created, now)
	for age := now.Sub(s.Next); more; {
		// The newest ones are made; older ones are dropped uncounted.
		age /= 2
		first := when.Next(now.Add(-age), s.Created)
		if first.IsZero() || first.After(now) {
			break
		}
		times, more = runsFrom(when, first, s.Created, now)
	}
	last := times[len(times)-1]
	if s.Missed == MissedAll {
		skip := max(0, len(times)-maxMadeUp)
		due = times[skip]
		next.Settled, next.Next = due, when.Next(due, s.Created)
		return due, skip
	}
	next.Settled, next.Next = last, when.Next(now, s.Created)
	if s.Missed == MissedSkip && now.Sub(last) > missedAfter {
		return time.Time{}, len(times)
	}
	return last, len(times) - 1
}

// runsFrom returns the times of runs from first to now, and whether there are more than are
// counted.
func runsFrom(when *When, first, created, now time.Time) (times []time.Time, more bool) {
	const counted = 10_000 // enough for a week of minutes
	times = []time.Time{first}
	for {
		t := when.Next(times[len(times)-1], created)
		if t.IsZero() || t.After(now) {
			return times, false
		}
		if len(times) == counted {
			return times, true
		}
		times = append(times, t)
	}
}

// advance stores next with a queued call that was due at a time.
func (v *Service) advance(ctx context.Context, s, next *Schedule, due, now time.Time) (bool, error) {
	if v.o.Taints != nil && len(s.Labels) > 0 {
		if err := v.o.Taints.AddTaints(ctx, s.Owner(), s.Call.Session, s.Labels, now); err != nil {
			return false, err
		}
	}
	next.Runs++
	call := s.Call
	call.ID = fmt.Sprintf("%s_%d", s.ID, next.Runs)
	next.Last = &Run{Due: due, Queued: now, Call: call.ID}
	job := &run.Job{Job: toolroom.Job{ID: call.ID, Identity: call.Identity, Call: call, State: toolroom.JobQueued, Created: now}}
	done, err := v.o.Store.AdvanceSchedule(ctx, s, next, job)
	if done && v.o.OnQueued != nil {
		v.o.OnQueued()
	}
	return done, err
}

// Sweep removes schedules that have ended long ago.
func (v *Service) Sweep(ctx context.Context) error {
	const keep = 30 * 24 * time.Hour
	return v.o.Store.SweepSchedules(ctx, v.o.Now().Add(-keep))
}

package run

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/source"
)

// ErrDetached is the cause of the context of a call whose caller disconnects and will ask for
// the result later. A call that waits for a person is suspended then, and its question stays
// open.
var ErrDetached = errors.New("the caller asks for the result later")

// continuesLater reports whether the call ends here and can continue later: its caller has
// detached, or this process is shutting down.
func (c *call) continuesLater() bool {
	return errors.Is(context.Cause(c.ctx), ErrDetached) || c.runner.Approvals != nil && c.runner.Approvals.Ending()
}

// ErrSuspended is the cause of the context of a suspended call: the call is resumed
// later, perhaps by another process.
var ErrSuspended = errors.New("the call is suspended until a person answers")

const (
	// suspensionLease is how long the lease of a suspendable call lasts without renewal. Then
	// another process may take the call over.
	suspensionLease = 6 * time.Second
	// suspendAfter is how long a background call keeps its slot while it waits for a
	// person.
	suspendAfter = 10 * time.Second
)

// Suspension is a call that can go on without the request that made it. There are four ways
// to get one:
//
//   - A [Worker] claims the job of a background call.
//   - A source that can resume an interrupted call makes the call suspendable while it
//     runs, see [Runner.Suspendable]: a program that waits for a person.
//   - A surface whose clients answer questions with a further request makes one for each
//     such request, see [NewSuspension]: a multi-round request.
//   - A source that has started work which continues by itself makes that a task, see
//     [Worker.StartTask].
//
// All but a multi-round request have a record, a [Job]: a process holds the job's lease
// while it works on the call, and any process can take the job over when the lease ends. A
// multi-round request is in the memory of its process.
//
// While the call waits for a person, Suspend lets its process forget it. While it waits
// for its client it holds no slot; see [Suspension.Ask].
type Suspension struct {
	client Client
	runner *Runner // nil without a job
	worker *Worker // nil if no worker of this process has the job
	lease  time.Duration
	// maxWait is how long the call waits for a person before it is suspended.
	maxWait time.Duration
	// slots holds one token of this job while it works.
	slots chan struct{}
	// releases are the functions that end this process's work on the job.
	releases []func()
	// leaseEnds is when the lease ends, in nanoseconds since 1970.
	leaseEnds atomic.Int64
	// toolNotRun reports that this process has not run the tool.
	toolNotRun bool

	mu        sync.Mutex
	job       *Job // set once
	resumable bool // the source can resume the call
	suspended bool

	asking  sync.Mutex
	waiting int            // number of waiting calls of Ask
	keyUses map[string]int // number of uses of each question's key in this attempt
	open    map[string]*openQuestion
	asked   chan struct{} // has a token if there may be an open question
}

// Job returns the record of the call, or nil if it has none.
func (s *Suspension) Job() *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job
}

// MaxWait returns how long the call waits for a person in this process before it should be
// suspended.
func (s *Suspension) MaxWait() time.Duration { return s.maxWait }

// WaitFor records the approvals that the call waits for. An empty list means that the call
// is running again.
func (s *Suspension) WaitFor(ctx context.Context, approvals []string) error {
	return s.runner.Jobs.WaitJob(context.WithoutCancel(ctx), s.job.ID, s.job.Fence, approvals)
}

// Suspend suspends the call when it ends in this process. It is resumed once one of the
// approvals that it waits for has been decided.
func (s *Suspension) Suspend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended = true
}

func (s *Suspension) isSuspended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended
}

func (s *Suspension) isResumable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumable
}

// hasCallerKey reports whether the caller has set the call's idempotency key.
func (s *Suspension) hasCallerKey() bool { return s.job.Call.IdempotencyKey != "" }

// CanSuspend reports whether the call of ctx can be made suspendable, see
// [Runner.Suspendable].
func (r *Runner) CanSuspend(ctx context.Context) bool {
	s := scopeOf(ctx)
	return s.runner == r && s.suspend != nil
}

// Suspendable stores the call of ctx as a job, so that another process can take it over.
// The source must be able to resume an interrupted call, see [source.Sandboxed]. lost is
// called when another process has taken the call. Suspendable returns an error with code
// unsupported for a call inside another call and if there is no job store.
func (r *Runner) Suspendable(ctx context.Context, lost func()) (*Suspension, error) {
	if !r.CanSuspend(ctx) {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "this call cannot outlive the call or process that made it")
	}
	return scopeOf(ctx).suspend(ctx, lost)
}

// suspend implements [Runner.Suspendable].
func (c *clearedCall) suspend(ctx context.Context, lost func()) (*Suspension, error) {
	s := c.background
	if s == nil {
		var err error
		if s, err = c.newSuspension(ctx, lost); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.resumable = true
	s.mu.Unlock()
	c.suspension.Store(s)
	return s, nil
}

// newSuspension creates the job of a call whose caller is waiting.
func (c *clearedCall) newSuspension(ctx context.Context, lost func()) (*Suspension, error) {
	r, now := c.runner, c.runner.Now()
	call := c.request
	call.NoWait, call.Approval = false, c.approval
	s := &Suspension{
		runner: r, lease: suspensionLease, maxWait: limitApprovalWait(ctx, r.Limits().ApprovalWait),
		job: &Job{
			Job:   toolroom.Job{ID: call.ID, Identity: call.Identity, Call: call, State: toolroom.JobRunning, Created: now, Started: true},
			Fence: 1, Lease: now.Add(suspensionLease),
		},
	}
	if c.request.NoWait {
		s.maxWait = 0
	}
	if err := r.Jobs.CreateJob(ctx, s.job); err != nil {
		return nil, err
	}
	s.startRenewal(ctx, func(error) { lost() })
	return s, nil
}

// settle ends this process's work on a call that was made suspendable while its caller
// waited: it stores the result, or releases a suspended call so that others can take it.
func (s *Suspension) settle(ctx context.Context, result *toolroom.Result) {
	s.releaseAll()
	ctx = context.WithoutCancel(ctx)
	var err error
	if s.isSuspended() {
		err = s.runner.Jobs.ExtendJob(ctx, s.job.ID, s.job.Fence, s.runner.Now(), true)
	} else {
		err = s.runner.finishJob(ctx, s.job, result)
	}
	if err != nil {
		s.runner.Log.Error("failed to store the state of a suspendable call", "call", s.job.ID, "error", err)
	}
}

// checkSuspended reports whether the call is suspended rather than ended. A call that was
// cancelled only because its caller detached or the process ends is suspended here.
func (o *outcome) checkSuspended() bool {
	s := o.suspension.Load()
	if s == nil {
		return false
	}
	if o.result.Status == toolroom.StatusCancelled && o.continuesLater() {
		s.Suspend()
		e := toolroom.Errorf(toolroom.CodeApprovalRequired, "%s has not finished: it is waiting for approval by a person", o.tool)
		e.Phase, e.Tool, e.Run = toolroom.PhaseApproval, o.tool, o.request.ID
		o.result.Error = e.WithHint("list open approvals: toolroom approve. Then read the result of the call %s", o.request.ID).WithCLIHint("toolroom runs wait %s", o.request.ID)
		o.result.Status = o.result.Error.Code.Info().Status
	}
	return s.isSuspended()
}

// TaskStarter makes a running call a task. state is the state that its source resumes from. It
// returns the asker that the tool uses from then on.
type TaskStarter func(ctx context.Context, call toolroom.Call, state json.RawMessage) (source.Asker, error)

// taskStarter returns the function that the source calls to make this call a task, or nil if it
// cannot become one.
func (c *clearedCall) taskStarter(x *execution) func(context.Context, json.RawMessage) (source.Asker, error) {
	start := c.scope.startTask
	if start == nil || c.resume != nil {
		return nil
	}
	return func(ctx context.Context, state json.RawMessage) (source.Asker, error) {
		asker, err := start(ctx, c.request, state)
		if err != nil {
			return nil, err
		}
		// A retry resumes the work of this attempt.
		x.request.Resume, x.request.Task = state, nil
		// No caller waits for a task, so it may take as long as its tool allows,
		// from now on.
		longest := time.AfterFunc(c.maxTimeout(), deadline.Pause(ctx))
		context.AfterFunc(ctx, func() { longest.Stop() })
		return toolAsker{asker, c.call, c.runner.Secrets}, nil
	}
}

// StartTask durably makes a multi-round request that is running a job of this worker:
// another process resumes it with state if this one ends. end ends the call with a cause.
// The caller must call Finish.
func (w *Worker) StartTask(ctx context.Context, s *Suspension, call toolroom.Call, state json.RawMessage, end context.CancelCauseFunc) error {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok {
		return toolroom.Errorf(toolroom.CodeUnsupported, "a task needs a job store that supports questions")
	}
	now := w.runner.Now()
	job := &Job{
		Job: toolroom.Job{
			ID: call.ID, Identity: call.Identity, Call: call, State: toolroom.JobRunning, Created: now, Answers: s.client.Answers, Started: true,
		},
		Resume: state, Fence: 1, Lease: now.Add(w.o.Lease),
	}
	if !w.addTask() {
		return toolroom.Errorf(toolroom.CodeCancelled, "no new tasks are accepted: this process is shutting down")
	}
	if err := store.CreateJob(ctx, job); err != nil {
		w.tasks.Done()
		return err
	}
	s.mu.Lock()
	// The task does not take one of the worker's slots: it has its own.
	s.runner, s.worker, s.lease, s.slots, s.job = w.runner, w, w.o.Lease, newTakenSlot(), job
	s.mu.Unlock()
	s.leaseEnds.Store(job.Lease.UnixNano())
	shutdown := context.AfterFunc(w.lifetime(), func() { end(source.ErrHandedOver) })
	s.releases = append(s.releases, w.tasks.Done, func() { shutdown() }, w.register(job.ID, s, func() { end(context.Canceled) }))
	s.startRenewal(ctx, end)
	return nil
}

// Finish stores the result of a task, or leaves the task to another process if this one is
// shutting down.
func (s *Suspension) Finish(result *toolroom.Result) {
	stopRenewal := s.releases[len(s.releases)-1]
	s.releases = s.releases[:len(s.releases)-1]
	stopRenewal()
	s.worker.finish(s.worker.lifetime(), s.job, result)
	s.releaseAll()
}

// startRenewal renews the lease in the background until releaseAll. end is called with a cause
// when the lease is lost or another process cancels the job.
func (s *Suspension) startRenewal(ctx context.Context, end func(error)) {
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loop sync.WaitGroup
	loop.Go(func() { s.renewLoop(renewing, end) })
	s.releases = append(s.releases, func() { stop(); loop.Wait() })
}

// releaseAll calls the release functions, the last first.
func (s *Suspension) releaseAll() {
	for i := len(s.releases) - 1; i >= 0; i-- {
		s.releases[i]()
	}
	s.releases = nil
}

func (s *Suspension) renewLoop(ctx context.Context, end func(error)) {
	tick := time.NewTicker(s.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		over := false
		panics.Log(s.runner.Log, "the lease of job "+s.job.ID, func() { over = s.renewOnce(ctx, end) })
		if over {
			return
		}
	}
}

// renewOnce renews the lease once and reports whether it has ended the call.
func (s *Suspension) renewOnce(ctx context.Context, end func(error)) bool {
	jobs := s.runner.Jobs
	err := s.extendLease(ctx)
	if errors.Is(err, &toolroom.Error{Code: toolroom.CodeConflict}) {
		end(s.handOverCause())
		return true
	}
	if now, err := jobs.Job(ctx, s.job.ID); err == nil && now.Cancelled {
		end(context.Canceled)
		return true
	}
	return false
}

// extendLease extends the lease by its full length from now.
func (s *Suspension) extendLease(ctx context.Context) error {
	ends := s.runner.Now().Add(s.lease)
	err := s.runner.Jobs.ExtendJob(ctx, s.job.ID, s.job.Fence, ends, true)
	if err == nil {
		s.leaseEnds.Store(ends.UnixNano())
	}
	return err
}

// handOverCause returns the cause for ending the call here because another process continues
// it.
func (s *Suspension) handOverCause() error {
	if s.job.Resume == nil {
		return context.Canceled // the other process starts it again
	}
	return source.ErrHandedOver
}

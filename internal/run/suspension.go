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

// ErrLater is the cause of the context of a call whose caller leaves and asks for the result
// later: a call that waits for a person is suspended, and its question stays open.
var ErrLater = errors.New("the caller asks for the result later")

// leaves reports whether the call ends because its caller asks for the result later, or
// because this process ends.
func (c *call) leaves() bool {
	return errors.Is(context.Cause(c.ctx), ErrLater) || c.runner.Approvals != nil && c.runner.Approvals.Ending()
}

// ErrSuspended is the cause of the context of a suspended call: the call is resumed
// later, perhaps by another process.
var ErrSuspended = errors.New("the call is suspended until a person answers")

const (
	// suspensionLease is how long the lease of a call lasts without renewal that its source
	// has made suspendable; then another process may take the call over.
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
	// release ends what this process does to hold the job. It is called once.
	release []func()
	// leaseEnds is when the lease ends, in nanoseconds since 1970.
	leaseEnds atomic.Int64
	// untouched says that this process has not run the tool.
	untouched bool

	mu        sync.Mutex
	job       *Job // is set once
	resumable bool // the source can resume the call
	suspended bool

	asking  sync.Mutex
	waiting int            // number of waiting calls of Ask
	used    map[string]int // number of uses of each question's key in this attempt
	open    map[string]*openQuestion
	asked   chan struct{} // has a token if there may be an open question
}

// Job returns the record of the call, or nil if it has none.
func (s *Suspension) Job() *Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.job
}

// MaxWait returns how long the call waits for a person in this process; then it should be
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

// keyOfCaller reports whether the caller has set the call's idempotency key.
func (s *Suspension) keyOfCaller() bool { return s.job.Call.IdempotencyKey != "" }

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
func (c *cleared) suspend(ctx context.Context, lost func()) (*Suspension, error) {
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

// newSuspension creates the job of a call whose caller waits.
func (c *cleared) newSuspension(ctx context.Context, lost func()) (*Suspension, error) {
	r, now := c.runner, c.runner.Now()
	call := c.request
	call.NoWait, call.Approval = false, c.approval
	s := &Suspension{
		runner: r, lease: suspensionLease, maxWait: limitWait(ctx, r.Limits().ApprovalWait),
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
	s.renew(ctx, func(error) { lost() })
	return s, nil
}

// settle ends this process's work on a call that was made suspendable while its caller
// waited: it stores the result, or releases a suspended call so that others can take it.
func (s *Suspension) settle(ctx context.Context, result *toolroom.Result) {
	s.leave()
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

// suspended reports whether the call is suspended rather than ended. A call that is
// cancelled because the process ends is suspended.
func (o *outcome) suspended() bool {
	s := o.suspension.Load()
	if s == nil {
		return false
	}
	if o.result.Status == toolroom.StatusCancelled && o.leaves() {
		s.Suspend()
		e := toolroom.Errorf(toolroom.CodeApprovalRequired, "%s has not finished: it is waiting for approval by a person", o.tool)
		e.Phase, e.Tool, e.Run = toolroom.PhaseApproval, o.tool, o.request.ID
		o.result.Error = e.WithHint("list open approvals: toolroom approve. Then read the result of the call %s", o.request.ID).WithCLIHint("toolroom runs wait %s", o.request.ID)
		o.result.Status = o.result.Error.Code.Info().Status
	}
	return s.isSuspended()
}

// StartTask makes a running call a task, and returns the asker that its tool uses from
// then on. state is that of its source.
type StartTask func(ctx context.Context, call toolroom.Call, state json.RawMessage) (source.Asker, error)

// task returns the function by which the source of this call makes it a task, or nil if it
// cannot.
func (c *cleared) task(x *execution) func(context.Context, json.RawMessage) (source.Asker, error) {
	start := c.scope.tasks
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
		longest := time.AfterFunc(c.ceiling(), deadline.Pause(ctx))
		context.AfterFunc(ctx, func() { longest.Stop() })
		return toolAsker{asker, c.runner.Secrets}, nil
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
	if !w.enter() {
		return toolroom.Errorf(toolroom.CodeCancelled, "no new tasks are accepted: this process is shutting down")
	}
	if err := store.CreateJob(ctx, job); err != nil {
		w.tasks.Done()
		return err
	}
	s.mu.Lock()
	// The task does not take one of the worker's slots: it has its own.
	s.runner, s.worker, s.lease, s.slots, s.job = w.runner, w, w.o.Lease, oneSlot(), job
	s.mu.Unlock()
	s.leaseEnds.Store(job.Lease.UnixNano())
	shutdown := context.AfterFunc(w.life(), func() { end(source.ErrHandedOver) })
	s.release = append(s.release, w.tasks.Done, func() { shutdown() }, w.registered(job.ID, s, func() { end(context.Canceled) }))
	s.renew(ctx, end)
	return nil
}

// Finish stores the result of a task, or leaves the task to another process if this one is
// shutting down.
func (s *Suspension) Finish(result *toolroom.Result) {
	beating := s.release[len(s.release)-1]
	s.release = s.release[:len(s.release)-1]
	beating()
	s.worker.finish(s.worker.life(), s.job, result)
	s.leave()
}

// renew renews the lease until the suspension is left. end is called with a cause when the
// lease is lost, or the job is cancelled by another process.
func (s *Suspension) renew(ctx context.Context, end func(error)) {
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { s.beat(beating, end) })
	s.release = append(s.release, func() { stop(); heart.Wait() })
}

// leave undoes what holds the job in this process, the last first.
func (s *Suspension) leave() {
	for i := len(s.release) - 1; i >= 0; i-- {
		s.release[i]()
	}
	s.release = nil
}

func (s *Suspension) beat(ctx context.Context, end func(error)) {
	tick := time.NewTicker(s.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		over := false
		panics.Log(s.runner.Log, "the lease of job "+s.job.ID, func() { over = s.beatOnce(ctx, end) })
		if over {
			return
		}
	}
}

// beatOnce renews the lease once and reports whether it has ended the call.
func (s *Suspension) beatOnce(ctx context.Context, end func(error)) bool {
	jobs := s.runner.Jobs
	err := s.extend(ctx)
	if errors.Is(err, &toolroom.Error{Code: toolroom.CodeConflict}) {
		end(s.handOver())
		return true
	}
	if now, err := jobs.Job(ctx, s.job.ID); err == nil && now.Cancelled {
		end(context.Canceled)
		return true
	}
	return false
}

// extend extends the lease.
func (s *Suspension) extend(ctx context.Context) error {
	ends := s.runner.Now().Add(s.lease)
	err := s.runner.Jobs.ExtendJob(ctx, s.job.ID, s.job.Fence, ends, true)
	if err == nil {
		s.leaseEnds.Store(ends.UnixNano())
	}
	return err
}

// handOver returns the cause with which the call ends here because another process
// continues it.
func (s *Suspension) handOver() error {
	if s.job.Resume == nil {
		return context.Canceled // the other process starts it again
	}
	return source.ErrHandedOver
}

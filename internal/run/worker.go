package run

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/source"
)

// Submit accepts a background call and returns its job once it is durable. A
// [Worker] of this process, or of another one on the same store, runs the job.
func (r *Runner) Submit(ctx context.Context, call toolroom.Call) (*Job, error) {
	return r.SubmitAsking(ctx, call, nil)
}

// SubmitAsking is Submit for a client that answers questions of the methods in
// answers.
func (r *Runner) SubmitAsking(ctx context.Context, call toolroom.Call, answers []string) (*Job, error) {
	if r.Jobs == nil {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "background calls need a store, and this room has none")
	}
	now := r.Now()
	if call.ID == "" {
		call.ID = newID("call", now)
	}
	job := &Job{Job: toolroom.Job{ID: call.ID, Identity: call.Identity, Call: call, State: toolroom.JobQueued, Created: now, Answers: answers}}
	if err := r.Jobs.CreateJob(ctx, job); err != nil {
		return nil, err
	}
	return job, nil
}

// CancelIdle cancels a background call that no worker is running: one that is queued, or
// suspended until a person answers. It reports whether it has cancelled the call.
func (r *Runner) CancelIdle(ctx context.Context, id string) (bool, error) {
	job, err := r.Jobs.Job(ctx, id)
	if err != nil || job.State != toolroom.JobQueued && job.State != toolroom.JobWaiting {
		return false, err
	}
	why, effects := toolroom.Errorf(toolroom.CodeCancelled, "the call was cancelled before it began"), toolroom.EffectsNone
	// The call is no child of the call that cancels it, if there is one.
	o := newOutcome(r.begin(withScope(ctx, func(s *scope) { *s = scope{} }), job.Call), &progress{})
	if job.State == toolroom.JobWaiting && r.mayHaveActed(ctx, job) {
		why.Message, effects = "the call was cancelled while it waited for a person; what it did before is unknown", toolroom.EffectsUnknown
		why.Effects = effects
		o.mayHaveRun = true
	}
	result := &toolroom.Result{
		Call: id, Tool: job.Call.Tool, Status: toolroom.StatusCancelled, Effects: effects, Error: why,
	}
	cancelled, err := r.Jobs.CancelIdleJob(ctx, id, result, r.Now())
	if cancelled {
		o.end(why) // its receipt and its last event
		r.abandonApprovals(ctx, job)
	}
	return cancelled, err
}

// abandonApprovals withdraws the approvals that a cancelled job was waiting for.
func (r *Runner) abandonApprovals(ctx context.Context, job *Job) {
	for _, question := range job.Approvals {
		if err := r.Approvals.Abandon(ctx, question); err != nil {
			r.Log.Warn("failed to cancel the approval of a cancelled call", "approval", question, "error", err)
		}
	}
}

// mayHaveActed reports whether a suspended call may already have had effects: a program
// that made calls, or a task of another server.
func (r *Runner) mayHaveActed(ctx context.Context, job *Job) bool {
	entry, err := r.Catalog.Resolve(job.Call.Tool, nil)
	if err != nil || job.Resume != nil {
		return true // it is not known
	}
	resumer, ok := source.As[source.Sandboxed](entry.Source)
	return ok && resumer.Resumes(ctx, job.ID)
}

// WorkerOptions configure a Worker. Zero fields have the defaults in parentheses.
type WorkerOptions struct {
	// Parallel is how many jobs run at once (10).
	Parallel int
	// Lease is how long a claim lasts without renewal (10 s).
	Lease time.Duration
	// MaxWait is how long a job that waits for a person keeps its slot (10 s).
	MaxWait time.Duration
	// Poll is how often the store is checked for work of other processes (500 ms).
	Poll time.Duration
}

// Worker runs background calls. Call Run once; it works until its context ends.
type Worker struct {
	runner *Runner
	o      WorkerOptions
	wake   chan struct{}
	// claiming is held for reading while a job is claimed and not yet in running.
	claiming sync.RWMutex

	mu          sync.Mutex
	running     map[string]runningJob // by id
	runCtx      context.Context       // the context of Run; nil before
	tasks       sync.WaitGroup        // jobs that began as calls
	tasksClosed bool                  // no more tasks are accepted
	// questions is closed and replaced when a job asks or is answered here.
	questions chan struct{}
}

// NewWorker returns a worker for r's jobs.
func NewWorker(r *Runner, o WorkerOptions) *Worker {
	o.Parallel = cmp.Or(o.Parallel, DefaultParallel)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.MaxWait = cmp.Or(o.MaxWait, suspendAfter)
	o.Poll = cmp.Or(o.Poll, 500*time.Millisecond)
	return &Worker{runner: r, o: o, wake: make(chan struct{}, 1), running: map[string]runningJob{}, questions: make(chan struct{})}
}

// Wake makes the worker check for work now.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// CancelRunning cancels a job that runs in this process. It reports false if the job does not
// run here.
func (w *Worker) CancelRunning(id string) bool {
	if w.cancelRegistered(id) {
		return true
	}
	// It may have been claimed a moment ago, and nothing else would cancel it here.
	w.claiming.Lock()
	defer w.claiming.Unlock()
	return w.cancelRegistered(id)
}

func (w *Worker) cancelRegistered(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.running[id]
	if ok {
		r.cancel()
	}
	return ok
}

// Run works until ctx ends, then waits for its jobs to end.
func (w *Worker) Run(ctx context.Context) {
	w.mu.Lock()
	w.runCtx = ctx
	w.mu.Unlock()
	slots := make(chan struct{}, w.o.Parallel)
	var wg sync.WaitGroup
	defer w.waitForTasks()
	defer wg.Wait()
	tick := time.NewTicker(w.o.Poll)
	defer tick.Stop()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		claimed, err := w.claim(ctx, slots, func() (*Job, error) { return w.claimAny(ctx) })
		if err != nil && ctx.Err() == nil {
			w.runner.Log.Error("failed to claim a job", "error", err)
		}
		if claimed != nil {
			wg.Go(func() {
				defer func() { <-slots; w.Wake() }()
				panics.Log(w.runner.Log, "job "+claimed.ID, func() { w.runJob(ctx, claimed) })
			})
			continue
		}
		<-slots
		select {
		case <-w.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// claimAny claims a job that may run, if there is one.
func (w *Worker) claimAny(ctx context.Context) (job *Job, err error) {
	panicked := panics.Catch(func() {
		if err = w.extendExpiredLeases(ctx); err == nil {
			now := w.runner.Now()
			job, err = w.runner.Jobs.ClaimJob(ctx, now, now.Add(w.o.Lease))
		}
	})
	return job, cmp.Or(panicked, err)
}

// runningJob is a job that this worker runs.
type runningJob struct {
	suspension *Suspension
	cancel     func()
}

// extendExpiredLeases extends the leases of the jobs that run here and whose leases have ended:
// the machine slept, the clock was set, or the store was locked. Without it this worker
// would claim its own jobs and run them a second time.
func (w *Worker) extendExpiredLeases(ctx context.Context) error {
	now := w.runner.Now().UnixNano()
	w.mu.Lock()
	var expired []*Suspension
	for _, r := range w.running {
		if r.suspension.leaseEnds.Load() <= now {
			expired = append(expired, r.suspension)
		}
	}
	w.mu.Unlock()
	for _, s := range expired {
		switch err := s.extendLease(ctx); toolroom.CodeOf(err) {
		case "", toolroom.CodeConflict, toolroom.CodeNotFound: // another process has it, and renewLoop ends it here
		default:
			return err
		}
	}
	return nil
}

// claimedJob is a job that this worker has claimed and can cancel.
type claimedJob struct {
	*Job
	suspension *Suspension
	ctx        context.Context // of the run
	end        context.CancelCauseFunc
	unregister func()
}

// claim registers the job that take claims, if there is one. The caller must call runJob.
func (w *Worker) claim(ctx context.Context, slots chan struct{}, take func() (*Job, error)) (*claimedJob, error) {
	w.claiming.RLock()
	defer w.claiming.RUnlock()
	job, err := take()
	if job == nil {
		return nil, err
	}
	c := &claimedJob{Job: job, suspension: w.newSuspension(job, slots)}
	c.ctx, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	c.unregister = w.register(job.ID, c.suspension, c.cancel)
	return c, err
}

func (c *claimedJob) cancel() { c.end(context.Canceled) }

// runJob runs one job under its lease, and stores its one result unless the job is continued
// later.
func (w *Worker) runJob(ctx context.Context, claimed *claimedJob) *toolroom.Result {
	job, s := claimed.Job, claimed.suspension
	defer claimed.cancel()
	defer claimed.unregister()
	defer context.AfterFunc(ctx, func() {
		if job.Resume == nil && errors.Is(context.Cause(ctx), ErrDetached) {
			claimed.end(ErrDetached) // the question that the call waits for stays open
			return
		}
		claimed.end(s.handOverCause())
	})()
	if job.Cancelled { // between its suspension and the release of its lease
		claimed.cancel()
		w.runner.abandonApprovals(context.WithoutCancel(ctx), job)
	}

	s.startRenewal(claimed.ctx, claimed.end)
	defer s.releaseAll() // also after a panic: otherwise no process would ever take the job
	call := job.Call
	if call.IdempotencyKey == "" {
		// The key decides what a second process may do with a job whose first
		// one died: see claimKey.
		call.IdempotencyKey = "job:" + job.ID
	}
	result := w.runner.Run(withScope(claimed.ctx, func(scope *scope) {
		scope.suspension = s
		if s.canAsk() {
			scope.asker = s
		}
	}), call)
	claimed.cancel()
	s.releaseAll()
	claimed.unregister() // what follows gives up the lease
	if s.isSuspended() || ctx.Err() != nil && (s.isResumable() || s.toolNotRun && result.Status == toolroom.StatusCancelled) {
		w.release(ctx, job)
		return result
	}
	w.finish(ctx, job, result)
	return result
}

// newSuspension returns the suspension of a job that this worker has claimed.
func (w *Worker) newSuspension(job *Job, slots chan struct{}) *Suspension {
	s := &Suspension{
		client: Client{Answers: job.Answers},
		runner: w.runner, worker: w, job: job, lease: w.o.Lease, slots: slots,
		maxWait: min(w.o.MaxWait, w.runner.Limits().ApprovalWait),
	}
	s.leaseEnds.Store(job.Lease.UnixNano())
	return s
}

// newTakenSlot returns the slots of a job that takes none of the worker's: one, already taken.
func newTakenSlot() chan struct{} {
	slots := make(chan struct{}, 1)
	slots <- struct{}{}
	return slots
}

// finish stores the result of a job. If this process is shutting down, which is when ctx has
// ended, it leaves an interrupted job to another process.
func (w *Worker) finish(ctx context.Context, job *Job, result *toolroom.Result) {
	if ctx.Err() != nil && (mayRunAgain(result) || job.Resume != nil && result.Error != nil) {
		w.release(ctx, job)
		return
	}
	if err := w.runner.finishJob(ctx, job, result); err != nil {
		w.runner.Log.Error("failed to store the result of a job", "job", job.ID, "error", err)
	}
}

// finishJob stores the one result of a job. If the result cannot be stored, the
// job ends with an error: otherwise each process would start it again.
func (r *Runner) finishJob(ctx context.Context, job *Job, result *toolroom.Result) error {
	ctx = context.WithoutCancel(ctx)
	finish := func(result *toolroom.Result) (err error) {
		panicked := panics.Catch(func() { err = r.Jobs.FinishJob(ctx, job.ID, job.Fence, result, r.Now()) })
		return cmp.Or(panicked, err)
	}
	err := finish(result)
	if code := toolroom.CodeOf(err); err == nil || code == toolroom.CodeConflict || code == toolroom.CodeNotFound {
		return err
	}
	r.Log.Error("failed to store the result of a job; storing an error instead", "job", job.ID, "error", err)
	e := toolroom.Errorf(toolroom.CodeInternal, "the call has ended, but its result could not be stored: %w", err)
	e.Tool = result.Tool
	return finish(&toolroom.Result{
		Call: result.Call, Tool: result.Tool, Status: e.Code.Info().Status, Effects: result.Effects, Usage: result.Usage,
		Error: r.Secrets.Error(e.WithHint("what it did is in its receipt").WithCLIHint("toolroom audit show %s", job.ID)),
	})
}

// release gives up a job that waits for a person, or whose process is shutting
// down: another process takes it over, at once if the store can be written.
func (w *Worker) release(ctx context.Context, job *Job) {
	panics.Log(w.runner.Log, "releasing a job", func() {
		_ = w.runner.Jobs.ExtendJob(context.WithoutCancel(ctx), job.ID, job.Fence, w.runner.Now(), true)
	})
}

// register records that a job runs here and how it is cancelled, until unregister is called.
func (w *Worker) register(id string, s *Suspension, cancel func()) (unregister func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[id] = runningJob{s, cancel}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.running[id].suspension == s {
			delete(w.running, id)
		}
	}
}

// mayRunAgain reports whether an interrupted call can simply be repeated: it had
// no effects, or the tool is safe to repeat.
func mayRunAgain(r *toolroom.Result) bool {
	return r.Status == toolroom.StatusCancelled && (r.Effects == toolroom.EffectsNone || r.Error.Retryable)
}

// Resume waits until a job is done and returns its result. It runs the job itself if no
// other process has it; ctx may have a sink for its events (see [WithSink]).
func (w *Worker) Resume(ctx context.Context, id string) (*toolroom.Result, error) {
	for {
		result, done, err := w.ResumeOnce(ctx, id)
		if done || err != nil {
			return result, err
		}
	}
}

// ResumeOnce is like Resume, but runs the job at most once. It returns done false if the job
// then waits for a person again or was interrupted.
func (w *Worker) ResumeOnce(ctx context.Context, id string) (result *toolroom.Result, done bool, err error) {
	jobs := w.runner.Jobs
	for {
		if err := w.extendExpiredLeases(ctx); err != nil {
			return nil, false, err
		}
		now := w.runner.Now()
		taken, err := w.claim(ctx, newTakenSlot(), func() (*Job, error) { return jobs.TakeJob(ctx, id, now, now.Add(w.o.Lease)) })
		if err != nil {
			return nil, false, err
		}
		var last *toolroom.Result
		if taken != nil {
			last = w.runJob(ctx, taken)
		}
		job, err := jobs.Job(ctx, id)
		switch {
		case err != nil:
			return nil, false, err
		case job.State == toolroom.JobDone:
			return job.Result, true, nil
		case last != nil:
			// A call that has ended is not run again if its result could not be stored. One
			// that was interrupted here continues elsewhere.
			ended := last.Status != toolroom.StatusCancelled && toolroom.CodeOf(last.Err()) != toolroom.CodeApprovalRequired
			return last, ended, nil
		}
		select {
		case <-time.After(w.o.Poll):
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// addTask makes Run wait for one more task at its end. It reports false if Run has ended.
func (w *Worker) addTask() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tasksClosed {
		return false
	}
	w.tasks.Add(1)
	return true
}

// waitForTasks refuses further tasks and waits for those that were added.
func (w *Worker) waitForTasks() {
	w.mu.Lock()
	w.tasksClosed = true
	w.mu.Unlock()
	w.tasks.Wait()
}

// lifetime returns the context of Run, or one that never ends if Run has not been called.
func (w *Worker) lifetime() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runCtx == nil {
		return context.Background()
	}
	return w.runCtx
}

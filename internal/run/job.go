package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// Submit accepts a call to be run later and returns its job once it is durable.
// The job is run by a [Worker] of this process or of another one on the same
// store.
func (r *Runner) Submit(ctx context.Context, call toolroom.Call) (*Job, error) {
	return r.SubmitAsking(ctx, call, nil)
}

// SubmitAsking is Submit for a client that answers questions: those of the
// methods named.
func (r *Runner) SubmitAsking(ctx context.Context, call toolroom.Call, answers []string) (*Job, error) {
	if r.Jobs == nil {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "asynchronous calls need a store, and this room has none")
	}
	now := r.Now()
	if call.ID == "" {
		call.ID = newID("call", now)
	}
	job := &Job{ID: call.ID, Identity: call.Identity, Call: call, State: JobQueued, Created: now, Answers: answers}
	if err := r.Jobs.CreateJob(ctx, job); err != nil {
		return nil, err
	}
	return job, nil
}

// Withdraw ends a submitted call that no worker has begun, and reports
// whether there was one.
func (r *Runner) Withdraw(ctx context.Context, id string) (bool, error) {
	job, err := r.Jobs.Job(ctx, id)
	if err != nil || job.State != JobQueued && job.State != JobWaiting {
		return false, err
	}
	why := toolroom.Errorf(toolroom.CodeCancelled, "the call was cancelled before it began")
	result := &toolroom.Result{
		Call: id, Tool: job.Call.Tool, Status: toolroom.StatusCancelled, Effects: toolroom.EffectsNone, Error: why,
	}
	cancelled, err := r.Jobs.WithdrawJob(ctx, id, result, r.Now())
	if cancelled {
		r.begin(ctx, job.Call).end(why) // its receipt and its last event
		for _, question := range job.Approvals {
			if err := r.Desk.Abandon(ctx, question); err != nil {
				r.Log.Warn("the question of a cancelled call stays open", "approval", question, "error", err)
			}
		}
	}
	return cancelled, err
}

// WorkerOptions configure a Worker; zero fields have the defaults named.
type WorkerOptions struct {
	// Parallel is how many jobs run at once (10).
	Parallel int
	// Lease is how long a claim lasts without a sign of life (10 s).
	Lease time.Duration
	// Poll is how often the store is asked for work of other processes (500 ms).
	Poll time.Duration
}

// Worker runs submitted calls. Start it once; it goes on until its context ends.
type Worker struct {
	runner *Runner
	o      WorkerOptions
	wake   chan struct{}

	mu      sync.Mutex
	cancels map[string]context.CancelFunc
	ended   context.Context // that of Run; nil before
	adopted sync.WaitGroup  // jobs that began as calls
	full    bool            // no more of these are taken
	// questions is closed and replaced when a job asks or is answered here.
	questions chan struct{}
}

// NewWorker makes a worker for r's jobs.
func NewWorker(r *Runner, o WorkerOptions) *Worker {
	set(&o.Parallel, DefaultParallel)
	set(&o.Lease, 10*time.Second)
	set(&o.Poll, 500*time.Millisecond)
	return &Worker{runner: r, o: o, wake: make(chan struct{}, 1), cancels: map[string]context.CancelFunc{}, questions: make(chan struct{})}
}

// Wake makes the worker look for work now.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Cancel ends a job that runs in this process. It reports whether there was one.
func (w *Worker) Cancel(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	cancel, ok := w.cancels[id]
	if ok {
		cancel()
	}
	return ok
}

// Run works until ctx ends, then waits for its jobs to end.
func (w *Worker) Run(ctx context.Context) {
	w.mu.Lock()
	w.ended = ctx
	w.mu.Unlock()
	slots := make(chan struct{}, w.o.Parallel)
	var wg sync.WaitGroup
	defer w.leaveAdopted()
	defer wg.Wait()
	tick := time.NewTicker(w.o.Poll)
	defer tick.Stop()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		job, err := w.runner.Jobs.ClaimJob(ctx, w.runner.Now(), w.runner.Now().Add(w.o.Lease))
		if err != nil && ctx.Err() == nil {
			w.runner.Log.Error("no job could be claimed", "error", err)
		}
		if job != nil {
			wg.Go(func() {
				defer func() { <-slots; w.Wake() }()
				w.do(ctx, job, slots)
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

// do runs one job under its lease, and stores its one result unless it goes on
// later.
func (w *Worker) do(ctx context.Context, job *Job, slots chan struct{}) *toolroom.Result {
	runCtx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	cancel := func() { end(context.Canceled) }
	defer cancel()
	defer context.AfterFunc(ctx, func() { end(leaving(job)) })()
	if job.Cancelled {
		cancel()
	}
	defer w.cancelled(job.ID, cancel)()

	var heart sync.WaitGroup
	heart.Go(func() { w.runner.beat(runCtx, job, w.o.Lease, end) })
	call := job.Call
	if call.IdempotencyKey == "" {
		// The key decides what a second process may do with a job whose first
		// one died: see claimKey.
		call.IdempotencyKey = "job:" + job.ID
	}
	kept := &Kept{runner: w.runner, job: job, hold: min(parkAfter, w.runner.Limits.ApprovalWait)}
	asking := resuming(w.asking(runCtx, job, slots), job)
	result := w.runner.Run(context.WithValue(asking, keptKey{}, kept), call)
	cancel()
	heart.Wait()
	if kept.isParked() || ctx.Err() != nil && kept.isActive() {
		w.release(ctx, job)
		return result
	}
	w.finish(ctx, job, result)
	return result
}

// finish stores the result of a job, or leaves the job to another process where
// this one ends, which closes ended.
func (w *Worker) finish(ended context.Context, job *Job, result *toolroom.Result) {
	if ended.Err() != nil && (mayRunAgain(result) || job.Resume != nil && result.Error != nil) {
		w.release(ended, job)
		return
	}
	err := w.runner.Jobs.FinishJob(context.WithoutCancel(ended), job.ID, job.Fence, result, w.runner.Now())
	if err != nil {
		w.runner.Log.Error("the result of a job was not stored", "job", job.ID, "error", err)
	}
}

// release gives up a job that waits for a person, or whose process ends: another
// process takes it over, at once if it can be told.
func (w *Worker) release(ctx context.Context, job *Job) {
	_ = w.runner.Jobs.ExtendJob(context.WithoutCancel(ctx), job.ID, job.Fence, w.runner.Now(), true)
}

// cancelled makes cancel end a job that is asked to, until the job leaves.
func (w *Worker) cancelled(id string, cancel context.CancelFunc) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancels[id] = cancel
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cancels, id)
	}
}

// mayRunAgain reports whether a call that was cut off can simply be made again:
// nothing happened, or the tool may be repeated.
func mayRunAgain(r *toolroom.Result) bool {
	return r.Status == toolroom.StatusCancelled && (r.Effects == toolroom.EffectsNone || r.Error.Retryable)
}

// asking lets the tool of a job ask, where the store keeps questions.
func (w *Worker) asking(ctx context.Context, job *Job, slots chan struct{}) context.Context {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok || len(job.Answers) == 0 {
		return ctx
	}
	return WithAsker(ctx, &jobAsker{worker: w, store: store, job: job, slots: slots})
}

// leaving is why a job ends here that goes on elsewhere.
func leaving(job *Job) error {
	if job.Resume == nil {
		return context.Canceled // it is begun anew there
	}
	return source.ErrLeft
}

// beat keeps the lease alive, and ends the run when it has been lost or when
// another process was asked to end it.
func (r *Runner) beat(ctx context.Context, job *Job, lease time.Duration, end context.CancelCauseFunc) {
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.Jobs.ExtendJob(ctx, job.ID, job.Fence, r.Now().Add(lease), true)
		if errors.Is(err, &toolroom.Error{Code: toolroom.CodeConflict}) {
			end(leaving(job))
			return
		}
		if now, err := r.Jobs.Job(ctx, job.ID); err == nil && now.Cancelled {
			end(context.Canceled)
			return
		}
	}
}

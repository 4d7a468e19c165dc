package run

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/source"
)

type (
	adoptKey  struct{}
	resumeKey struct{}
)

// Adopt makes a call that runs a job, and gives whom the tool asks from now on.
type Adopt func(ctx context.Context, call toolroom.Call, state json.RawMessage) (source.Asker, error)

// WithTasks lets a call that is made with ctx go on as a task: once its source
// has begun something that goes on by itself, adopt is called, at most once.
func WithTasks(ctx context.Context, adopt Adopt) context.Context {
	return context.WithValue(ctx, adoptKey{}, adopt)
}

// resuming has a job carried on that its source has begun.
func resuming(ctx context.Context, job *Job) context.Context {
	if job.Resume == nil {
		return ctx
	}
	return context.WithValue(ctx, resumeKey{}, job.Resume)
}

// task is how the source of this call makes it a task, nil where it cannot.
func (p *pass) task(x *execution) func(context.Context, json.RawMessage) (source.Asker, error) {
	adopt, ok := p.ctx.Value(adoptKey{}).(Adopt)
	if !ok || p.resume != nil {
		return nil
	}
	return func(ctx context.Context, state json.RawMessage) (source.Asker, error) {
		asker, err := adopt(ctx, p.call, state)
		if err != nil {
			return nil, err
		}
		// A repeat of the attempt carries on what this one has begun.
		x.request.Resume, x.request.Task = state, nil
		// Nobody waits for a task as for an answer: it has the longest time that its
		// tool may take, from now on.
		longest := time.AfterFunc(p.ceiling(), patience.Hold(ctx))
		context.AfterFunc(ctx, func() { longest.Stop() })
		return toolAsker{asker, p.Secrets}, nil
	}
}

// Adopted is a job that was a call until its source made it a task.
type Adopted struct {
	*Job
	// Ask is whom its tool asks.
	Ask source.Asker

	worker *Worker
	stop   context.CancelFunc
	heart  sync.WaitGroup
	leave  []func()
}

// Adopt makes a call that runs a job of this worker, durably: another process
// resumes it, with the state, should this one end. Answers are the methods that
// its client answers; end ends the call, for a reason. Finish must follow.
func (w *Worker) Adopt(ctx context.Context, call toolroom.Call, answers []string, state json.RawMessage, end context.CancelCauseFunc) (*Adopted, error) {
	store, ok := w.runner.Jobs.(QuestionStore)
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "a task needs a store of jobs that can ask")
	}
	now := w.runner.Now()
	job := &Job{
		ID: call.ID, Identity: call.Identity, Call: call, State: JobRunning, Created: now, Answers: answers,
		Started: true, Resume: state, Fence: 1, Lease: now.Add(w.o.Lease),
	}
	if !w.enter() {
		return nil, toolroom.Errorf(toolroom.CodeCancelled, "no task is begun any more: this process ends")
	}
	// It works beside the others: the place in the worker is its own.
	slots := make(chan struct{}, 1)
	slots <- struct{}{}
	if err := store.CreateJob(ctx, job); err != nil {
		w.adopted.Done()
		return nil, err
	}
	a := &Adopted{Job: job, Ask: &jobAsker{worker: w, store: store, job: job, slots: slots}, worker: w}
	left := context.AfterFunc(w.life(), func() { end(source.ErrLeft) })
	a.leave = append(a.leave, w.cancelled(job.ID, func() { end(context.Canceled) }), func() { left() }, w.adopted.Done)
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	a.heart.Go(func() { w.runner.beat(beating, job, w.o.Lease, end) })
	return a, nil
}

// Finish stores the result of the job, or leaves the job to another process where
// this one ends.
func (a *Adopted) Finish(result *toolroom.Result) {
	a.stop()
	a.heart.Wait()
	a.worker.finish(a.worker.life(), a.Job, result)
	for _, leave := range a.leave {
		leave()
	}
}

// enter has the worker wait for one more job, unless it has ended.
func (w *Worker) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return false
	}
	w.adopted.Add(1)
	return true
}

// leaveAdopted waits for the jobs that have entered.
func (w *Worker) leaveAdopted() {
	w.mu.Lock()
	w.full = true
	w.mu.Unlock()
	w.adopted.Wait()
}

// life ends when the worker is to end.
func (w *Worker) life() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		return context.Background()
	}
	return w.ended
}

package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
)

// ErrParked is the cause of a context whose call goes on later, perhaps in
// another process.
var ErrParked = errors.New("the call is parked until a person has answered")

const (
	// keepLease is how long another process waits for a sign of life before it
	// takes over a call that was made to outlive its own.
	keepLease = 6 * time.Second
	// parkAfter is how long a job keeps its place while it waits for a person.
	parkAfter = 10 * time.Second
)

// Kept is a call that outlives this process: a job, which another process takes
// over when this one dies or parks it. See [Runner.Keep].
type Kept struct {
	runner *Runner
	job    *Job
	hold   time.Duration
	own    bool // made of a call that somebody waits for, not by a Worker
	stop   func()

	mu     sync.Mutex
	active bool // it was asked to be kept
	parked bool
}

type keptKey struct{}

// CanKeep reports whether the call that ctx was given to can be kept.
func (r *Runner) CanKeep(ctx context.Context) bool {
	p, ok := ctx.Value(passKey{}).(*pass)
	return ok && p.Runner == r && p.parent == nil && r.Jobs != nil
}

// Keep makes the call that ctx was given to a job, so that it can be taken over
// by another process. The source must be able to go on with a call that was cut
// off: see [source.Resumer]. lost is called when another process has taken the
// call. A call from inside another one cannot be kept, nor one without a store:
// that is an error with code unsupported.
func (r *Runner) Keep(ctx context.Context, lost func()) (*Kept, error) {
	if !r.CanKeep(ctx) {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "this call lives no longer than the one that made it")
	}
	p, _ := ctx.Value(passKey{}).(*pass)
	if k, ok := ctx.Value(keptKey{}).(*Kept); ok {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.active = true
		p.kept.Store(k)
		return k, nil
	}
	k := &Kept{runner: r, own: true, active: true, hold: r.Limits.ApprovalWait}
	if p.call.NoWait {
		k.hold = 0
	}
	now := r.Now()
	call := p.call
	call.NoWait, call.Approval = false, p.approval
	k.job = &Job{
		ID: p.call.ID, Identity: p.call.Identity, Call: call, State: JobRunning, Created: now, Started: true,
		Fence: 1, Lease: now.Add(keepLease),
	}
	if err := r.Jobs.CreateJob(ctx, k.job); err != nil {
		return nil, err
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heart sync.WaitGroup
	heart.Go(func() { r.beat(beating, k.job, keepLease, func(error) { lost() }) })
	k.stop = func() { stop(); heart.Wait() }
	p.kept.Store(k)
	return k, nil
}

// Hold is how long the call is held in this process while it waits for a
// person; then it should be parked.
func (k *Kept) Hold() time.Duration { return k.hold }

// Wait notes the approvals that the call waits for. With none it works again.
func (k *Kept) Wait(ctx context.Context, approvals []string) error {
	return k.runner.Jobs.WaitJob(context.WithoutCancel(ctx), k.job.ID, k.job.Fence, approvals)
}

// Park gives the call up in this process: it goes on when one of the approvals
// that it waits for is decided.
func (k *Kept) Park() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parked = true
}

func (k *Kept) isParked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.parked
}

func (k *Kept) isActive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.active
}

// isJob reports whether a job runs this call.
func (p *pass) isJob() bool {
	_, ok := p.ctx.Value(keptKey{}).(*Kept)
	return ok && p.parent == nil
}

// parked reports whether this pass has not ended the call: it goes on later.
func (p *pass) parked() bool {
	k := p.kept.Load()
	if k == nil {
		return false
	}
	if p.result.Status == toolroom.StatusCancelled && p.Desk != nil && p.Desk.Ending() {
		k.Park() // the process ends, not the call
		e := toolroom.Errorf(toolroom.CodeApprovalRequired, "%s is not done: it waits for approval by a person", p.tool)
		e.Phase, e.Tool, e.Details = toolroom.PhaseApproval, p.tool, map[string]any{"run": p.call.ID}
		p.result.Error = e.WithHint("see what it waits for: toolroom approve. Then read its result with: toolroom runs wait %s", p.call.ID)
		p.result.Status = p.result.Error.Code.Info().Status
	}
	return k.isParked()
}

// settle ends what this process has to do with the call: its result is stored,
// or others may take it.
func (k *Kept) settle(ctx context.Context, result *toolroom.Result) {
	r := k.runner
	k.stop()
	ctx = context.WithoutCancel(ctx)
	var err error
	if k.isParked() {
		err = r.Jobs.ExtendJob(ctx, k.job.ID, k.job.Fence, r.Now(), true)
	} else {
		err = r.Jobs.FinishJob(ctx, k.job.ID, k.job.Fence, result, r.Now())
	}
	if err != nil {
		r.Log.Error("a call that was kept is not settled", "call", k.job.ID, "error", err)
	}
}

// Waiting says how a call from inside a program waits for a person.
type Waiting struct {
	// Began is told of the question before the wait, and says how long the wait
	// may last. Ended is told that it was answered, or that the call was given
	// up; a wait that took too long, or is parked, it is not told of.
	Began func(*approval.Approval) (time.Duration, error)
	Ended func(*approval.Approval)
}

// RunWaiting is Run for a caller who has a say in how the call waits for a
// person.
func (r *Runner) RunWaiting(ctx context.Context, call toolroom.Call, w Waiting) *toolroom.Result {
	return r.pass(ctx, call, w)
}

func (r *Runner) pass(ctx context.Context, call toolroom.Call, w Waiting) *toolroom.Result {
	p := r.begin(ctx, call)
	p.waiting = w
	p.emit(toolroom.Event{Kind: toolroom.EventCalled})
	err := p.through()
	result := p.end(err)
	if k := p.kept.Load(); k != nil && k.own {
		k.settle(p.ctx, result)
	}
	return result
}

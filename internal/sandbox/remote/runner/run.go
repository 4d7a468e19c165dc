package runner

import (
	"context"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/internal/sandbox/remote/signed"
	"github.com/toolroom/toolroom/sandbox"
)

// runID names a run: each identity has ids of its own.
type runID struct{ identity, id string }

// run is one ordered sandbox, from its order until it is forgotten.
type run struct {
	id     runID
	cancel context.CancelFunc // ends the start
	ready  chan struct{}      // closed when the start has succeeded or failed
	box    sandbox.Sandbox    // nil when it has failed
	err    error

	killing sync.Mutex // one at a time

	mu       sync.Mutex
	attached bool      // the stream is open
	streamed bool      // it was, once
	deadline time.Time // by which it is ended unless the stream is open
	over     time.Time // by which it is ended in any case
	ended    time.Time // when nothing of it was left
	end      remote.End
}

// remembered is how long an ended run is known, so that no late or repeated
// order starts it again: as long as a signature can be good.
const remembered = 2*signed.Window + time.Minute

// maxRemembered bounds how many runs are known, ended ones with them.
const maxRemembered = 1 << 16

// startTimeout bounds the start of a sandbox.
const startTimeout = 60 * time.Second

// start starts a sandbox, or joins the start of the same order.
func (r *Runner) start(ctx context.Context, id runID, spec sandbox.Spec) (*remote.Started, error) {
	run, err := r.enter(id, spec)
	if err != nil {
		return nil, err
	}
	select {
	case <-run.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if run.err != nil {
		return nil, run.err
	}
	if run.gone() {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "the sandbox of this order has ended")
	}
	return &remote.Started{Isolation: run.box.Isolation(), Held: run.box.Held()}, nil
}

// enter begins a run, unless it is known or there are too many.
func (r *Runner) enter(id runID, spec sandbox.Spec) (*run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.runs[id]; known != nil {
		return known, nil
	}
	all, own := 0, 0
	for other, run := range r.runs {
		if run.gone() {
			continue
		}
		all++
		if other.identity == id.identity {
			own++
		}
	}
	if all >= r.o.Most || own >= r.o.MostPerKey {
		e := toolroom.Errorf(toolroom.CodeRateLimited, "there are %d sandboxes, %d of this client, and no more are started", all, own)
		return nil, e.WithHint("wait for one to end, or start the runner with a higher --max-sandboxes")
	}
	if len(r.runs) >= maxRemembered {
		return nil, toolroom.Errorf(toolroom.CodeRateLimited, "more than %d sandboxes were ordered within %s", maxRemembered, remembered)
	}
	if r.ctx.Err() != nil {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the runner is being stopped")
	}
	now := time.Now()
	starting, cancel := context.WithTimeout(r.ctx, startTimeout)
	created := &run{id: id, cancel: cancel, ready: make(chan struct{}), over: now.Add(r.o.Lifetime)}
	created.deadline = now.Add(startTimeout + r.o.Grace)
	r.runs[id] = created
	spec.Guest, spec.Args = r.o.Guest, r.o.GuestArgs
	r.work.Go(func() {
		defer cancel()
		created.begin(starting, r, spec)
	})
	return created, nil
}

// begin starts the sandbox, as far as this machine can hold what was ordered.
func (u *run) begin(ctx context.Context, r *Runner, spec sandbox.Spec) {
	if u.err = sandbox.Check(r.o.Driver.Name(), r.probe.get(), spec); u.err == nil {
		u.box, u.err = r.o.Driver.Start(ctx, spec)
	}
	u.mu.Lock()
	u.deadline = time.Now().Add(r.o.Grace)
	if u.err != nil {
		u.box, u.ended = nil, time.Now()
	}
	u.mu.Unlock()
	close(u.ready)
}

// findOrEnd gives a known run, or one that has ended before it began.
func (r *Runner) findOrEnd(id runID) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.runs[id]
	if known == nil {
		known = &run{id: id, cancel: func() {}, ready: make(chan struct{}), ended: time.Now()}
		close(known.ready)
		if len(r.runs) < maxRemembered {
			r.runs[id] = known
		}
	}
	return known
}

func (r *Runner) all() []*run {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*run, 0, len(r.runs))
	for _, run := range r.runs {
		all = append(all, run)
	}
	return all
}

// tidyPeriod is how often sandboxes are looked at whose client has gone.
const tidyPeriod = 500 * time.Millisecond

// tidy ends what nobody holds any more, and forgets what ended long ago.
func (r *Runner) tidy() {
	tick := time.NewTicker(tidyPeriod)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		for _, run := range r.all() {
			switch due, forget := run.state(now); {
			case forget:
				r.mu.Lock()
				delete(r.runs, run.id)
				r.mu.Unlock()
			case due:
				r.work.Go(func() {
					if err := run.kill(); err != nil {
						r.o.Log.Error("a sandbox could not be removed", "client", run.id.identity, "error", err)
						return
					}
					r.o.Log.Info("ended a sandbox that its client had left, or whose time was over", "client", run.id.identity)
				})
			}
		}
	}
}

func (u *run) state(now time.Time) (due, forget bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended.IsZero() {
		return false, now.Sub(u.ended) > remembered
	}
	if due = now.After(u.over) || !u.attached && now.After(u.deadline); due {
		u.deadline, u.over = now.Add(killTimeout), now.Add(killTimeout) // then it is tried again
	}
	return due, false
}

// gone tells whether nothing of the sandbox is left.
func (u *run) gone() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.ended.IsZero()
}

// killTimeout bounds the removal of a sandbox, exitTimeout the question how it
// ended.
const (
	killTimeout = 20 * time.Second
	exitTimeout = time.Second
)

// kill ends the sandbox, once, and keeps how it ended.
func (u *run) kill() error {
	u.killing.Lock()
	defer u.killing.Unlock()
	u.cancel()
	<-u.ready
	if u.gone() {
		return nil
	}
	ctx, done := context.WithTimeout(context.Background(), killTimeout)
	defer done()
	if err := u.box.Kill(ctx); err != nil {
		return err
	}
	asking, stop := context.WithTimeout(ctx, exitTimeout)
	defer stop()
	exit, _ := u.box.Wait(asking) // a driver may know no more of what it has removed
	u.mu.Lock()
	defer u.mu.Unlock()
	u.end, u.ended = endOf(exit, u.box.Usage()), time.Now()
	return nil
}

func endOf(exit sandbox.Exit, used sandbox.Usage) remote.End {
	return remote.End{
		Code: exit.Code, Signal: exit.Signal, OOM: exit.OOM, OutOfCPU: exit.OutOfCPU, Stderr: exit.Stderr, CPU: used.CPU, PeakMemory: used.PeakMemory,
	}
}

// wait waits for the guest to end.
func (u *run) wait(ctx context.Context) (remote.End, error) {
	select {
	case <-u.ready:
	case <-ctx.Done():
		return remote.End{}, ctx.Err()
	}
	if u.err != nil {
		return remote.End{}, u.err
	}
	if u.gone() {
		return u.usage(), nil
	}
	exit, err := u.box.Wait(ctx)
	return endOf(exit, u.box.Usage()), err
}

// usage is what the sandbox has used so far, or in all.
func (u *run) usage() remote.End {
	select {
	case <-u.ready:
	default:
		return remote.End{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended.IsZero() || u.box == nil {
		return u.end
	}
	return endOf(sandbox.Exit{}, u.box.Usage())
}

// attach takes the run's one stream.
func (u *run) attach() error {
	<-u.ready
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.err != nil:
		return u.err
	case !u.ended.IsZero():
		return toolroom.Errorf(toolroom.CodeConflict, "the sandbox has ended")
	case u.attached || u.streamed:
		return toolroom.Errorf(toolroom.CodeConflict, "the sandbox's stream is taken; each has one, once")
	}
	u.attached = true
	return nil
}

package remote

import (
	"context"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// runID identifies a run; each client has its own ids.
type runID struct{ identity, id string }

// run is one ordered sandbox, from its order until it is forgotten.
type run struct {
	id      runID
	driver  sandbox.Driver
	cancel  context.CancelFunc // ends the start
	ready   chan struct{}      // closed when the start has succeeded or failed
	sandbox sandbox.Sandbox    // nil if the start has failed
	err     error

	killing sync.Mutex // held by kill

	mu       sync.Mutex
	attached bool      // the stream is open
	streamed bool      // the stream has been open
	deadline time.Time // when the sandbox is ended unless the stream is open
	over     time.Time // when the sandbox is ended in any case
	ended    time.Time // when the sandbox was removed
	end      End
}

// rememberTime is the time for which an ended run is known, so that a late or repeated order
// does not start it again. It is as long as a signature can be valid.
const rememberTime = 2*SignatureWindow + time.Minute

// maxRemembered bounds the number of known runs, including ended ones.
const maxRemembered = 1 << 16

// startTimeout bounds the start of a sandbox.
const (
	startTimeout      = 60 * time.Second
	localStartTimeout = 10 * time.Minute
)

// start starts a sandbox, or waits for the start of the same order.
func (r *Runner) start(ctx context.Context, id runID, spec sandbox.Spec) (*Started, error) {
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
	if run.removed() {
		return nil, toolroom.Errorf(toolroom.CodeConflict, "the sandbox of this order has ended")
	}
	return &Started{Isolation: run.sandbox.Isolation(), Held: run.sandbox.Held()}, nil
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
		if run.removed() {
			continue
		}
		all++
		if other.identity == id.identity {
			own++
		}
	}
	if all >= r.o.Most || own >= r.o.MostPerKey {
		e := toolroom.Errorf(toolroom.CodeRateLimited, "there are %d sandboxes, %d of this client, and no more are allowed", all, own)
		return nil, e.WithHint("wait for one to end, or start the runner with a higher --max-sandboxes")
	}
	if len(r.runs) >= maxRemembered {
		return nil, toolroom.Errorf(toolroom.CodeRateLimited, "more than %d sandboxes were ordered within %s", maxRemembered, rememberTime)
	}
	if r.ctx.Err() != nil || r.driver == nil {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the runner is being stopped")
	}
	now := time.Now()
	timeout := startTimeout
	if r.o.Local {
		timeout = localStartTimeout // the client ends the start
	}
	starting, cancel := context.WithTimeout(r.ctx, timeout)
	created := &run{id: id, driver: r.driver, cancel: cancel, ready: make(chan struct{}), over: now.Add(r.o.Lifetime)}
	created.deadline = now.Add(timeout + r.o.Grace)
	r.runs[id] = created
	if !r.o.Local {
		spec.Guest, spec.Args = r.o.Guest, r.o.GuestArgs
	}
	r.work.Go(func() {
		defer cancel()
		created.begin(starting, r, spec)
	})
	return created, nil
}

// begin starts the sandbox if this machine can enforce the ordered limits. A client on this
// machine has checked that.
func (u *run) begin(ctx context.Context, r *Runner, spec sandbox.Spec) {
	if !r.o.Local {
		u.err = sandbox.Check(r.o.Driver.Name(), r.probe.get(), spec)
	}
	if u.err == nil {
		u.sandbox, u.err = u.driver.Start(ctx, spec)
	}
	u.mu.Lock()
	u.deadline = time.Now().Add(r.o.Grace)
	if u.err != nil {
		u.sandbox, u.ended = nil, time.Now()
	}
	u.mu.Unlock()
	close(u.ready)
}

// findOrEnd returns a known run, or makes one that has already ended.
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

// tidyPeriod is the interval at which tidy looks for abandoned sandboxes.
const tidyPeriod = 500 * time.Millisecond

// tidy ends abandoned sandboxes, and forgets runs that ended long ago.
func (r *Runner) tidy() {
	tick := time.NewTicker(tidyPeriod)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		r.closeRetired()
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
					r.o.Log.Info("ended a sandbox that its client had abandoned, or whose time was over", "client", run.id.identity)
				})
			}
		}
	}
}

func (u *run) state(now time.Time) (due, forget bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.ended.IsZero() {
		return false, now.Sub(u.ended) > rememberTime
	}
	if due = now.After(u.over) || !u.attached && now.After(u.deadline); due {
		u.deadline, u.over = now.Add(killTimeout), now.Add(killTimeout) // try again then
	}
	return due, false
}

// removed reports whether the sandbox has been removed.
func (u *run) removed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.ended.IsZero()
}

// killTimeout bounds the removal of a sandbox, and exitTimeout the wait for its exit
// status.
const (
	killTimeout = 20 * time.Second
	exitTimeout = time.Second
)

// kill ends the sandbox, once, and records how it ended.
func (u *run) kill() error {
	u.killing.Lock()
	defer u.killing.Unlock()
	u.cancel()
	<-u.ready
	if u.removed() {
		return nil
	}
	ctx, done := context.WithTimeout(context.Background(), killTimeout)
	defer done()
	if err := u.sandbox.Kill(ctx); err != nil {
		return err
	}
	asking, stop := context.WithTimeout(ctx, exitTimeout)
	defer stop()
	exit, _ := u.sandbox.Wait(asking) // a driver may not know the exit of a sandbox it has removed
	end := newEnd(exit, u.sandbox.Usage())
	u.mu.Lock()
	defer u.mu.Unlock()
	u.end, u.ended = end, time.Now()
	return nil
}

func newEnd(exit sandbox.Exit, used sandbox.Usage) End {
	return End{
		Code: exit.Code, Signal: exit.Signal, OOM: exit.OOM, OutOfCPU: exit.OutOfCPU, Stderr: exit.Stderr, CPU: used.CPU, PeakMemory: used.PeakMemory,
	}
}

// wait waits for the guest to end.
func (u *run) wait(ctx context.Context) (End, error) {
	select {
	case <-u.ready:
	case <-ctx.Done():
		return End{}, ctx.Err()
	}
	if u.err != nil {
		return End{}, u.err
	}
	if u.removed() {
		return u.usage(), nil
	}
	exit, err := u.sandbox.Wait(ctx)
	return newEnd(exit, u.sandbox.Usage()), err
}

// usage returns the sandbox's usage so far, or its total usage.
func (u *run) usage() End {
	select {
	case <-u.ready:
	default:
		return End{}
	}
	u.mu.Lock()
	over, end := !u.ended.IsZero() || u.sandbox == nil, u.end
	u.mu.Unlock()
	if over {
		return end
	}
	return newEnd(sandbox.Exit{}, u.sandbox.Usage()) // may ask another machine
}

// attach takes the run's stream, which can be opened once.
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
		return toolroom.Errorf(toolroom.CodeConflict, "the sandbox's stream has already been opened")
	}
	u.attached = true
	return nil
}

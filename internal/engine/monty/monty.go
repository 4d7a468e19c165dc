// Package monty is the engine py-lite: Monty, an interpreter of a part of Python, in
// worker processes that are locked down. It refuses unsupported programs before
// they have any effect, so that another engine can run them.
package monty

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/worker"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures the engine.
type Options struct {
	// Find returns the path of the worker's binary, `monty`, release 1.4 or later. It
	// is called until it succeeds. Required.
	Find func() (string, error)
	// Init is the command that begins a sandbox, as in lockdown.HostMachine; empty
	// means this binary.
	Init []string
}

// Name is the engine's id.
const Name = "py-lite"

// Engine is the engine py-lite.
type Engine struct {
	pool *worker.Pool[*montyWorker]
	// checkers are workers that only check types, because that takes twenty times the memory
	// of running programs.
	checkers *worker.Pool[*montyWorker]
	checked  *lru.Cache[[sha256.Size]byte, struct{}] // programs that need no further check

	mu     sync.Mutex
	probed *sandbox.Probe // nil until a worker has started
}

// New returns the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	passed, _ := lru.New[[sha256.Size]byte, struct{}](maxChecked) // fails only if the size is zero
	start := newStarter(o)
	return &Engine{pool: worker.NewPool(Name, 0, start), checkers: worker.NewPool(Name, 0, start), checked: passed}
}

// Name returns py-lite.
func (e *Engine) Name() string { return Name }

// Languages returns python.
func (e *Engine) Languages() []string { return []string{"python"} }

func held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{
		sandbox.LimitWall:    "kill",
		sandbox.LimitCPU:     "the interpreter's clock",
		sandbox.LimitMemory:  "the interpreter's allocator",
		sandbox.LimitPIDs:    "no processes inside",
		sandbox.LimitDisk:    engine.NoFiles,
		sandbox.LimitNetwork: "no sockets inside",
	}
}

// Probe starts a worker, and keeps it for the first run. After a successful start it
// returns the same probe; before that it tries again, because a worker may have been
// installed.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probed != nil {
		return *e.probed
	}
	w, err := e.pool.Acquire(ctx, "")
	if err != nil {
		p := sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "toolroom setup engines"}
		if errors.Is(err, os.ErrNotExist) {
			p.Reason = "the Monty worker is not installed"
		}
		return p
	}
	e.probed = &sandbox.Probe{
		State: sandbox.Available, Version: fmt.Sprintf("Monty, protocol %d", w.version), Isolation: w.Isolation(), Holds: held(), Languages: e.Languages(),
	}
	e.pool.Release(w, true)
	return *e.probed
}

// Close ends all workers, even during runs.
func (e *Engine) Close() error {
	e.checkers.Close()
	e.pool.Close()
	return nil
}

// Run runs one program.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Handler) (*engine.Result, error) {
	p := j.Program
	p.Limits = p.Limits.WithDefaults()
	result := &engine.Result{Engine: Name, Isolation: e.pool.Isolation(), Held: held()}
	if err := cmp.Or(engine.CheckLimits(p.Limits), engine.CheckProcessors(Name, j.Sandbox)); err != nil {
		return nil, err
	}
	if p.Language != "python" {
		result.Outcome.Failure = &bridge.Failure{Kind: bridge.FailUnsupported, Message: fmt.Sprintf("it runs python, not %q", p.Language)}
		return result, nil
	}
	session, err := readState(p.State)
	if err != nil {
		return result, err
	}
	ready, failure := program.Prepare(p, session.Bound)
	if failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}

	ctx, stop := deadline.WithTimeout(ctx, time.Duration(p.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	if result.Outcome.Failure = e.checkTypes(ctx, j, p, session, ready); result.Outcome.Failure != nil {
		return result, nil
	}
	for started := time.Now(); ; {
		w, err := e.pool.Acquire(ctx, j.Owner)
		if err != nil {
			return result, engine.WorkerLost(ctx, err)
		}
		waited := e.pool.Waited(w)
		result.Isolation, result.Start = w.Isolation(), time.Since(started)
		out, err := e.runIn(w, func() *run { return newRun(ctx, w, p, session, ready, h) })
		if waited && errors.Is(err, bridge.ErrNotBegun) && ctx.Err() == nil {
			continue // the worker had ended while it waited in the pool
		}
		if out != nil {
			result.Outcome = *out
			result.CPU = time.Duration(out.CPU) * time.Millisecond
		}
		if err != nil {
			return result, engine.WorkerLost(ctx, err)
		}
		return result, nil
	}
}

// runIn runs a program and returns its worker to the pool, even if the run panics: Close waits
// for all workers.
func (e *Engine) runIn(w *montyWorker, begin func() *run) (out *bridge.Outcome, err error) {
	reusable := false
	defer func() { e.pool.Release(w, reusable) }()
	out, reusable, err = begin().run()
	return out, err
}

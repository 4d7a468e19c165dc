// Package monty is the engine py-lite: Monty, an interpreter of a part of
// Python, in worker processes that are locked down. What it does not run it
// refuses before anything has been done, so that another engine can.
package monty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/sandbox"
)

// Options say how the engine runs.
type Options struct {
	// Find gives the path of the worker's binary, `monty`, release 1.4 or later;
	// it is asked until it finds one. Required.
	Find func() (string, error)
	// Init is the command that begins a sandbox, as in lockdown.Host; empty means
	// this binary.
	Init []string
	// Workers is how many programs run at once, 8 if zero. Further ones wait.
	Workers int
}

// DefaultWorkers is the default of [Options.Workers].
const DefaultWorkers = 8

// Name is the engine's id.
const Name = "py-lite"

// Engine is the engine py-lite.
type Engine struct {
	pool *pool

	mu     sync.Mutex
	probed *sandbox.Probe // once it has found a worker
}

// New makes the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	return &Engine{pool: newPool(newStarter(o), o.Workers)}
}

// Name is py-lite.
func (e *Engine) Name() string { return Name }

// Languages is python.
func (e *Engine) Languages() []string { return []string{"python"} }

func held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{
		sandbox.LimitWall:    "kill",
		sandbox.LimitCPU:     "the interpreter's clock",
		sandbox.LimitMemory:  "the interpreter's allocator",
		sandbox.LimitPIDs:    "no processes inside",
		sandbox.LimitDisk:    "no files inside",
		sandbox.LimitNetwork: "no sockets inside",
	}
}

// Probe starts a worker, and keeps it for the first run. Once one has started it
// is not asked again; before that, somebody may install one.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probed != nil {
		return *e.probed
	}
	w, err := e.pool.acquire(ctx, "")
	if err != nil {
		p := sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "toolroom setup engines"}
		if errors.Is(err, os.ErrNotExist) {
			p.Reason = "the Monty worker is not installed"
		}
		return p
	}
	e.probed = &sandbox.Probe{
		State: sandbox.Available, Version: fmt.Sprintf("Monty, protocol %d", w.version), Isolation: w.isolation, Holds: held(), Languages: e.Languages(),
	}
	e.pool.release(w, true)
	return *e.probed
}

// Close ends all workers, those of runs under way included.
func (e *Engine) Close() error { return e.pool.close() }

// Run runs one program.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Host) (*engine.Result, error) {
	p := j.Program
	p.Limits = p.Limits.WithDefaults()
	result := &engine.Result{Engine: Name, Isolation: e.pool.isolation(), Held: held()}
	if l := p.Limits; l.Wall < 0 || l.CPU < 0 || l.Memory < 0 || l.Output < 0 || l.Calls < 0 || l.Parallel < 0 || l.Bytes < 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a limit of a program cannot be negative").
			WithHint("leave a limit out, or give 0, for its default")
	}
	if p.Language != "python" {
		result.Outcome.Failure = &bridge.Failure{Kind: bridge.FailUnsupported, Message: fmt.Sprintf("it runs python, not %q", p.Language)}
		return result, nil
	}
	ready, failure := program.Prepare(p)
	if failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}

	ctx, stop := patience.WithTimeout(ctx, time.Duration(p.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	started := time.Now()
	w, err := e.pool.acquire(ctx, j.Owner)
	if err != nil {
		return result, whyEnded(ctx, err)
	}
	result.Isolation, result.Start = w.isolation, time.Since(started)
	r := newRun(ctx, w, p, ready, h)
	out, well, err := r.run()
	e.pool.release(w, well)
	if out != nil {
		result.Outcome = *out
		result.CPU = time.Duration(out.CPU) * time.Millisecond
	}
	if err != nil {
		return result, whyEnded(ctx, err)
	}
	return result, nil
}

// whyEnded turns what broke a run off into an error that says why.
func whyEnded(ctx context.Context, err error) error {
	var known *toolroom.Error
	switch {
	case errors.Is(context.Cause(ctx), engine.ErrWall):
		return toolroom.Errorf(toolroom.CodeTimeout, "the program was stopped: its time was over").
			WithHint("make it do less, or ask for a higher timeout")
	case ctx.Err() != nil:
		return toolroom.Errorf(toolroom.CodeCancelled, "the program was stopped: the call was cancelled")
	case errors.As(err, &known):
		return known
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the worker that ran the program broke off: %w", err).
		WithHint("the program was ended with it; other runs were not touched")
}

// Package py is the engine for Python that needs no Python of the host: CPython
// as WebAssembly, in worker processes that are this same binary. A program runs
// in an interpreter that no other program has touched; a worker serves one
// owner until it ends.
package py

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/cpython"
	"github.com/toolroom/toolroom/internal/engine/resume"
	"github.com/toolroom/toolroom/internal/engine/worker"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/sandbox"
)

// Name is the engine's id.
const Name = "py"

// Options say how the engine runs.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments
	// that lead it to [Worker], such as [WorkerArg].
	Command []string
	// CacheDir keeps compiled code and the image of the interpreter between
	// starts, which then take a fraction of a second in place of many. It must
	// be private to the user of this process, since what lies there is
	// executed. Empty means none.
	CacheDir string
	// Workers is how many programs run at once, [worker.DefaultSize] if zero.
	// Further ones wait.
	Workers int
}

// Engine is the engine py.
type Engine struct {
	pool *worker.Pool[*guest]
}

// New makes the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	self := &worker.Self{
		Launcher: worker.NewLauncher("wasm", append(slices.Clone(o.Command), lockdown.InitArg)),
		Command:  o.Command, CacheDir: o.CacheDir,
	}
	return &Engine{worker.NewPool(Name, o.Workers, func(ctx context.Context) (*guest, error) { return start(ctx, self) })}
}

// Name is py.
func (e *Engine) Name() string { return Name }

// Languages are python.
func (e *Engine) Languages() []string { return []string{"python"} }

// Sessions are kept of Python.
func (e *Engine) Sessions() []string { return e.Languages() }

// held says how limits are held, whatever the isolation around the worker.
func held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{
		sandbox.LimitWall:    "fuel, then kill",
		sandbox.LimitMemory:  "WebAssembly memory, the interpreter's included",
		sandbox.LimitPIDs:    "no processes inside",
		sandbox.LimitDisk:    "no files inside",
		sandbox.LimitNetwork: "no sockets inside",
	}
}

// Probe starts a worker, and keeps it for the first run.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	w, err := e.pool.Acquire(ctx, "")
	if err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "see the error; the engine needs an amd64 or arm64 machine and about 250 MiB of memory"}
	}
	isolation := w.Isolation()
	e.pool.Release(w, true)
	return sandbox.Probe{
		State: sandbox.Available, Version: cpython.Version, Isolation: isolation, Holds: held(),
		Lacks:     map[sandbox.Limit]string{sandbox.LimitCPU: "only wall time is counted"},
		Languages: e.Languages(),
	}
}

// Close ends all workers, those of runs under way included.
func (e *Engine) Close() error {
	e.pool.Close()
	return nil
}

// untimed is what a worker is told of the wall time: it cannot know how long a
// person is asked, so the clock is on this side, which cancels the program.
const untimed = math.MaxInt32

// Run runs one program.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Host) (*engine.Result, error) {
	p := j.Program
	p.Limits = p.Limits.WithDefaults()
	result := &engine.Result{Engine: e.Name(), Isolation: e.pool.Isolation(), Held: held()}
	if err := checkLimits(p.Limits); err != nil {
		return nil, err
	}
	if p.Language != "python" {
		result.Outcome.Failure = &bridge.Failure{Kind: bridge.FailUnsupported, Type: "Unsupported", Message: fmt.Sprintf("the py engine runs python, not %q", p.Language)}
		return result, nil
	}
	if err := resume.Fit(Name, &p); err != nil {
		return result, err
	}
	started := time.Now()
	w, err := e.pool.Acquire(ctx, j.Owner)
	if err != nil {
		return result, cmp.Or(engine.Stopped(ctx), err)
	}
	result.Isolation, result.Start = w.Isolation(), time.Since(started)
	running, stop := patience.WithTimeout(ctx, time.Duration(p.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	p.Limits.Wall = untimed
	out, err := w.conn.Run(running, p, h)
	e.pool.Release(w, err == nil)
	if err != nil {
		return result, engine.BrokeOff(running, fmt.Errorf("%w%s", err, w.LastWords()))
	}
	result.Outcome = *out
	classify(out.Failure)
	return result, ended(running, out.Failure)
}

func checkLimits(l bridge.Limits) error {
	if err := engine.CheckLimits(l); err != nil {
		return err
	}
	if l.Memory < cpython.MinMemory || l.Memory > cpython.MaxMemory {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the py engine gives a program %d to %d MiB of memory, its interpreter included; %d were asked for", cpython.MinMemory>>20, cpython.MaxMemory>>20, l.Memory>>20).
			WithHint("ask for another amount, or choose another engine")
	}
	if l.CPU > 0 {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the py engine counts wall time only, not CPU time").
			WithHint("limit the wall time, or choose another engine")
	}
	return nil
}

// classify says of a failure what only this engine knows.
func classify(f *bridge.Failure) {
	switch {
	case f == nil:
	case f.Type == "ModuleNotFoundError":
		// Another Python may have it: one of the host, with its wheels.
		f.Kind = bridge.FailUnsupported
	case f.Type == "SystemError" && strings.Contains(f.Message, "without exception set"):
		// Where CPython 3.12 runs out of memory it may forget to say so.
		f.Kind, f.Limit = bridge.FailLimit, "memory"
	}
}

// ended makes an error of the limits that a worker reports, and nothing of
// what the program itself did wrong.
func ended(ctx context.Context, f *bridge.Failure) error {
	switch {
	case f == nil:
		return nil
	case f.Kind == bridge.FailCancelled:
		return cmp.Or(engine.Stopped(ctx), error(engine.Cancelled()))
	case f.Kind != bridge.FailLimit:
		return nil
	case f.Limit == "session":
		return bridge.OverLimit(f.Limit, "%s", f.Message).
			WithHint("the session is as it was before this run: let it hold less, for example artifacts in place of data")
	}
	return bridge.OverLimit(f.Limit, "the program was stopped: it reached its limit of %s", f.Limit).
		WithHint("make it hold less at once, or ask for a higher limit")
}

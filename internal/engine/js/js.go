// Package js is the engine for JavaScript and TypeScript: QuickJS as
// WebAssembly, in worker processes that are this same binary. A program runs
// in an isolate that no other program has touched; a worker serves one owner
// until it ends.
package js

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/js/program"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/engine/resume"
	"github.com/toolroom/toolroom/internal/engine/worker"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/sandbox"
)

// Options say how the engine runs.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments
	// that lead it to [Worker], such as [WorkerArg]. Empty runs isolates in this process, which is for programs
	// that are trusted, and for tests.
	Command []string
	// CacheDir keeps compiled code between starts, which then take tens of
	// milliseconds in place of about a second. It must be private to the user
	// of this process, since what lies there is executed. Empty means none.
	CacheDir string
	// Workers is how many programs run at once, [worker.DefaultSize] if zero. Further ones wait.
	Workers int
}

// Engine is the engine js.
type Engine struct {
	pool     *worker.Pool[*guest]
	local    inProcess
	prepared *program.Cache
}

// New makes the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	e := &Engine{local: inProcess{cacheDir: o.CacheDir}, prepared: program.NewCache()}
	start := func(ctx context.Context) (*guest, error) {
		p, err := e.local.start(ctx)
		return connect(ctx, p, err)
	}
	if len(o.Command) > 0 {
		launcher := worker.NewLauncher("wasm", append(slices.Clone(o.Command), lockdown.InitArg))
		self := &worker.Self{Launcher: launcher, Command: o.Command, CacheDir: o.CacheDir}
		start = func(ctx context.Context) (*guest, error) {
			p, err := self.Start(ctx)
			return connect(ctx, p, err)
		}
	}
	e.pool = worker.NewPool(e.Name(), o.Workers, start)
	return e
}

// Name is js.
func (e *Engine) Name() string { return "js" }

// Languages are javascript and typescript.
func (e *Engine) Languages() []string { return []string{"javascript", "typescript"} }

// Sessions are kept of both languages; one session may use both.
func (e *Engine) Sessions() []string { return e.Languages() }

// held says how limits are held, whatever the isolation around the worker.
func held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{
		sandbox.LimitWall:    "interrupt, then fuel, then kill",
		sandbox.LimitMemory:  "engine and WebAssembly memory",
		sandbox.LimitPIDs:    "no processes inside",
		sandbox.LimitDisk:    "no files inside",
		sandbox.LimitNetwork: "no sockets inside",
	}
}

// Probe starts a worker, and keeps it for the first run.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	w, err := e.pool.Acquire(ctx, "")
	if err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "see the error; the engine needs an amd64 or arm64 machine and about 64 MiB of memory"}
	}
	isolation := w.Isolation()
	e.pool.Release(w, true)
	return sandbox.Probe{
		State: sandbox.Available, Version: quickjs.Version, Isolation: isolation, Holds: held(),
		Lacks:     map[sandbox.Limit]string{sandbox.LimitCPU: "only wall time is counted"},
		Languages: e.Languages(),
	}
}

// Close ends all workers, those of runs under way included.
func (e *Engine) Close() error {
	e.pool.Close()
	return e.local.close()
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
	if failure := unsupported(p); failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}
	if err := resume.Fit(e.Name(), &p); err != nil {
		return result, err
	}
	ready, failure := e.prepared.Prepare(p)
	if failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}
	p.Source = ready.Source

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
	if out.Failure != nil {
		ready.Blame(out.Failure)
	}
	result.Outcome = *out
	return result, ended(running, out.Failure)
}

func checkLimits(l bridge.Limits) error {
	if err := engine.CheckLimits(l); err != nil {
		return err
	}
	if l.Memory > quickjs.MaxMemory {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the js engine gives a program at most %d MiB of memory, %d were asked for", quickjs.MaxMemory>>20, l.Memory>>20).
			WithHint("ask for less, or choose another engine")
	}
	if l.CPU > 0 {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the js engine counts wall time only, not CPU time").
			WithHint("limit the wall time, or choose another engine")
	}
	return nil
}

// unsupported refuses what this engine cannot give, before anything runs.
func unsupported(p bridge.Program) *bridge.Failure {
	switch {
	case p.Language != "javascript" && p.Language != "typescript":
		return &bridge.Failure{Kind: bridge.FailUnsupported, Type: "Unsupported", Message: fmt.Sprintf("the js engine runs javascript and typescript, not %q", p.Language)}
	}
	return nil
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
	case f.Limit == "wall":
		return engine.TimedOut()
	case f.Limit == "session":
		return bridge.OverLimit(f.Limit, "%s", f.Message).
			WithHint("the session is as it was before this run: let it hold less, for example artifacts in place of data")
	}
	return bridge.OverLimit(f.Limit, "the program was stopped: it reached its limit of %s", f.Limit).
		WithHint("make it hold less at once, or ask for a higher limit")
}

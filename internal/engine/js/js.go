// Package js is the engine for JavaScript and TypeScript: QuickJS as
// WebAssembly, in worker processes that are this same binary. A program runs
// in an isolate that no other program has touched; a worker serves one owner
// until it ends.
package js

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/js/program"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
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
	// Workers is how many programs run at once, 8 if zero. Further ones wait.
	Workers int
}

// DefaultWorkers is the default of [Options.Workers].
const DefaultWorkers = 8

// Engine is the engine js.
type Engine struct {
	options  Options
	pool     *pool
	prepared *program.Cache
}

// New makes the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	var start starter = &inProcess{cacheDir: o.CacheDir}
	if len(o.Command) > 0 {
		start = &processes{command: o.Command, cacheDir: o.CacheDir, launcher: newLauncher(o.Command)}
	}
	return &Engine{options: o, pool: newPool(start, o.Workers), prepared: program.NewCache()}
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
	w, err := e.pool.acquire(ctx, "")
	if err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "see the error; the engine needs an amd64 or arm64 machine and about 64 MiB of memory"}
	}
	isolation := w.isolation
	e.pool.release(w, true)
	return sandbox.Probe{
		State: sandbox.Available, Version: quickjs.Version, Isolation: isolation, Holds: held(),
		Lacks:     map[sandbox.Limit]string{sandbox.LimitCPU: "only wall time is counted"},
		Languages: e.Languages(),
	}
}

// Close ends all workers, those of runs under way included.
func (e *Engine) Close() error { return e.pool.close() }

// killGrace is how long a worker may take to end a cancelled program by itself,
// before it is killed.
const killGrace = 60 * time.Millisecond

// untimed is what a worker is told of the wall time: it cannot know how long a
// person is asked, so the clock is on this side, which cancels the program.
const untimed = math.MaxInt32

// Run runs one program.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Host) (*engine.Result, error) {
	p := j.Program
	p.Limits = p.Limits.WithDefaults()
	result := &engine.Result{Engine: e.Name(), Isolation: e.pool.isolation(), Held: held()}
	if err := checkLimits(p.Limits); err != nil {
		return nil, err
	}
	if failure := unsupported(p); failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}
	if err := inSession(&p); err != nil {
		return result, err
	}
	ready, failure := e.prepared.Prepare(p)
	if failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}
	p.Source = ready.Source

	started := time.Now()
	w, err := e.pool.acquire(ctx, j.Owner)
	if err != nil {
		return result, err
	}
	result.Isolation, result.Start = w.isolation, time.Since(started)
	running, stop := patience.WithTimeout(ctx, time.Duration(p.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	p.Limits.Wall = untimed
	out, err := w.conn.Run(running, p, h)
	e.pool.release(w, err == nil)
	if err != nil {
		return result, brokeOff(running, w, err)
	}
	if out.Failure != nil {
		ready.Blame(out.Failure)
	}
	result.Outcome = *out
	if out.Failure != nil && out.Failure.Kind == bridge.FailCancelled && errors.Is(context.Cause(running), engine.ErrWall) {
		return result, timedOut()
	}
	return result, ended(out.Failure)
}

func checkLimits(l bridge.Limits) error {
	if l.Wall < 0 || l.CPU < 0 || l.Memory < 0 || l.Output < 0 || l.Calls < 0 || l.Parallel < 0 || l.Bytes < 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a limit of a program cannot be negative").
			WithHint("leave a limit out, or give 0, for its default")
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
func ended(f *bridge.Failure) error {
	if f == nil {
		return nil
	}
	switch f.Kind {
	case bridge.FailLimit:
		switch f.Limit {
		case "wall":
			return timedOut()
		case "session":
			e := toolroom.Errorf(toolroom.CodeResourceLimit, "%s", f.Message)
			e.Details = map[string]any{"limit": f.Limit}
			return e.WithHint("the session is as it was before this run: let it hold less, for example artifacts in place of data")
		}
		e := toolroom.Errorf(toolroom.CodeResourceLimit, "the program was stopped: it reached its limit of %s", f.Limit)
		e.Details = map[string]any{"limit": f.Limit}
		return e.WithHint("make it hold less at once, or ask for a higher limit")
	case bridge.FailCancelled:
		return cancelled()
	}
	return nil
}

func timedOut() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeTimeout, "the program was stopped: its time was over").
		WithHint("make it do less, or ask for a higher timeout")
}

func cancelled() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeCancelled, "the program was stopped: the call was cancelled")
}

// brokeOff explains a run after which the worker had to be killed.
func brokeOff(ctx context.Context, w *worker, err error) error {
	var known *toolroom.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(context.Cause(ctx), engine.ErrWall):
		return timedOut()
	case ctx.Err() != nil:
		return cancelled()
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the worker that ran the program broke off: %v%s", err, w.lastWords()).
		WithHint("the program was ended with it; other runs were not touched")
}

package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Kind describes an [Engine]: what it runs, and in which interpreter.
type Kind struct {
	// Name is the engine's id.
	Name string
	// Languages are the languages of its programs, its workers' language first.
	Languages []string
	// Stateless means that the engine keeps no session state.
	Stateless bool
	// Version names the interpreter.
	Version string
	// Wall, CPU and Memory say how these limits are enforced. An empty CPU means
	// that CPU time is not limited.
	Wall, CPU, Memory string
	// MinMemory and MaxMemory bound the limit of memory, in bytes.
	MinMemory, MaxMemory int64
	// Needs is what the engine needs of a machine, such as 64 MiB of memory.
	Needs string
	// Compile, if set, is the language in which a guest receives a program's module
	// to compile, before it receives the program without the module. It receives a
	// module once until it receives another. Compiling is part of the start and does
	// not count as the program's time.
	Compile string
	// CompileTime limits the time for compiling.
	CompileTime time.Duration
	// Workers is how many programs run at once, [DefaultSize] if zero. Further
	// programs wait.
	Workers int
	// Prepare makes a program ready to run, or returns why it cannot run. The
	// function blame adds engine-specific details to the failure of a run.
	Prepare func(*bridge.Program) (blame func(*bridge.Failure), refused *bridge.Failure)
}

// Engine is an [engine.SessionEngine] whose programs run in guests, each in a
// WebAssembly interpreter that no other program has touched. A guest serves one
// owner until it ends.
type Engine struct {
	kind Kind
	pool *Pool[*Guest]
}

// CPUClock says how a guest in its own process enforces a limit of CPU time, ""
// if it cannot.
func CPUClock() string {
	if proc.CanMeterCPU {
		return "the worker's clock, checked by fuel"
	}
	return ""
}

// NewEngine returns an engine that starts its guests with start. Nothing is started
// before the first run or probe.
func NewEngine(k Kind, start func(context.Context) (GuestProcess, error)) *Engine {
	guest := func(ctx context.Context) (*Guest, error) {
		p, err := start(ctx)
		if err != nil {
			return nil, k.unavailable(err)
		}
		g, err := Accept(ctx, p)
		if err != nil {
			return nil, k.unavailable(err)
		}
		return g, nil
	}
	return &Engine{k, NewPool(k.Name, k.Workers, guest)}
}

func (k *Kind) unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no worker for %s could be started: %w", k.Languages[0], err).
		WithCLIHint("toolroom doctor shows what this machine allows")
}

// Name returns the engine's id.
func (e *Engine) Name() string { return e.kind.Name }

// Languages returns the languages of its programs.
func (e *Engine) Languages() []string { return e.kind.Languages }

// Sessions returns all languages of the engine, or none if it is stateless. One
// session may use several languages.
func (e *Engine) Sessions() []string {
	if e.kind.Stateless {
		return nil
	}
	return e.kind.Languages
}

// held says how limits are enforced, whatever the isolation around the worker.
func (e *Engine) held() map[sandbox.Limit]string {
	m := map[sandbox.Limit]string{
		sandbox.LimitWall:    e.kind.Wall,
		sandbox.LimitMemory:  e.kind.Memory,
		sandbox.LimitPIDs:    "no processes inside",
		sandbox.LimitDisk:    engine.NoFiles,
		sandbox.LimitNetwork: "no sockets inside",
	}
	if e.kind.CPU != "" {
		m[sandbox.LimitCPU] = e.kind.CPU
	}
	return m
}

// Probe starts the first worker, and keeps it for the first run.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	isolation, err := e.pool.ProbeIsolation(ctx)
	if err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "see the error; the engine needs an amd64 or arm64 machine and about " + e.kind.Needs}
	}
	p := sandbox.Probe{State: sandbox.Available, Version: e.kind.Version, Isolation: isolation, Holds: e.held(), Languages: e.Languages()}
	if e.kind.CPU == "" {
		p.Lacks = map[sandbox.Limit]string{sandbox.LimitCPU: "only wall time is counted"}
	}
	return p
}

// Close ends all workers, even during runs.
func (e *Engine) Close() error {
	e.pool.Close()
	return nil
}

// unlimitedWall is the wall time that a worker receives. A worker cannot know how long a
// person takes to answer, so this side measures the time and cancels the program.
const unlimitedWall = math.MaxInt32

// Run runs one program.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Handler) (*engine.Result, error) {
	p := j.Program
	p.Limits, p.Profile = p.Limits.WithDefaults(), string(j.Sandbox.Profile)
	result := &engine.Result{Engine: e.Name(), Isolation: e.pool.Isolation(), Held: e.held()}
	if err := cmp.Or(e.kind.checkLimits(p.Limits), engine.CheckProcessors(e.Name(), j.Sandbox)); err != nil {
		return nil, err
	}
	if !slices.Contains(e.kind.Languages, p.Language) && (p.Language == "" || p.Language != e.kind.Compile) {
		result.Outcome.Failure = &bridge.Failure{
			Kind: bridge.FailUnsupported, Type: "Unsupported",
			Message: fmt.Sprintf("the %s engine runs %s, not %q", e.Name(), strings.Join(e.kind.Languages, " and "), p.Language),
		}
		return result, nil
	}
	if err := wasm.PrepareSession(e.Name(), &p); err != nil {
		return result, err
	}
	blame, refused := e.kind.Prepare(&p)
	if refused != nil {
		result.Outcome.Failure = refused
		return result, nil
	}

	started := time.Now()
	for {
		again, err := e.runIn(ctx, j.Owner, p, h, blame, started, result)
		if !again {
			return result, err
		}
	}
}

// runIn runs a program in a guest, and fills in the result. It returns again if the guest had
// ended while it waited in the pool: then nothing of the program has run.
func (e *Engine) runIn(ctx context.Context, owner string, p bridge.Program, h bridge.Handler, blame func(*bridge.Failure), started time.Time, result *engine.Result) (again bool, err error) {
	g, err := e.pool.Acquire(ctx, owner)
	if err != nil {
		return false, cmp.Or(engine.Stopped(ctx), err)
	}
	waited := e.pool.Waited(g)
	result.Isolation = g.Isolation()
	compileOnly := p.Language == e.kind.Compile
	if out, err := e.kind.compile(ctx, g, p); err != nil || out.Failure != nil || compileOnly {
		e.pool.Release(g, err == nil)
		if err != nil {
			return waited && errors.Is(err, bridge.ErrNotBegun) && ctx.Err() == nil, err
		}
		result.Outcome = *out
		return false, nil
	}
	p.Module = nil
	result.Start = time.Since(started)
	running, stop := deadline.WithTimeout(ctx, time.Duration(p.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	p.Limits.Wall = unlimitedWall
	out, err := g.Run(running, p, h)
	e.pool.Release(g, err == nil)
	if err != nil {
		again = waited && errors.Is(err, bridge.ErrNotBegun) && running.Err() == nil
		return again, engine.WorkerLost(running, err)
	}
	if out.Failure != nil {
		blame(out.Failure)
	}
	result.Outcome = *out
	return false, limitError(running, out.Failure)
}

// errCompile is the cause of a context that ended because the time for compiling is over.
var errCompile = errors.New("the time for compiling is over")

// compile makes a guest compile the program's module, if k has modules. A module that the
// guest compiled last is not sent again, because sending some megabytes takes longer than
// many runs do.
func (k *Kind) compile(ctx context.Context, g *Guest, p bridge.Program) (*bridge.Outcome, error) {
	if k.Compile == "" || g.compiled != nil && bytes.Equal(g.compiled, p.Module) {
		return &bridge.Outcome{}, nil
	}
	g.compiled = nil
	bounded, stop := context.WithTimeoutCause(ctx, k.CompileTime, errCompile)
	defer stop()
	out, err := g.Run(bounded, bridge.Program{Language: k.Compile, Module: p.Module}, nil)
	switch {
	case err != nil && errors.Is(context.Cause(bounded), errCompile):
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the module was not compiled within %s", k.CompileTime).
			WithHint("make it smaller: remove unused code and debug information")
	case err != nil:
		return nil, engine.WorkerLost(ctx, err)
	}
	if out.Failure == nil {
		g.compiled = p.Module
	}
	return out, nil
}

func (k *Kind) checkLimits(l bridge.Limits) error {
	if err := engine.CheckLimits(l); err != nil {
		return err
	}
	cannot := func(format string, args ...any) *toolroom.Error {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s engine %s", k.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case l.Memory > k.MaxMemory:
		return cannot("allows at most %d MiB of memory, %d were requested", k.MaxMemory>>20, l.Memory>>20).
			WithHint("ask for less, or choose another engine")
	case l.Memory < k.MinMemory:
		return cannot("needs at least %d MiB of memory, its interpreter included; %d were requested", k.MinMemory>>20, l.Memory>>20).
			WithHint("ask for more, or choose another engine")
	case l.CPU > 0 && k.CPU == "":
		return cannot("can limit only wall time, not CPU time").
			WithHint("limit the wall time, or choose another engine")
	}
	return nil
}

// limitError returns the error for a failure that reports an exceeded limit, and nil for the
// program's own errors.
func limitError(ctx context.Context, f *bridge.Failure) error {
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
			WithHint("the session is as it was before this run: store less in it, for example artifacts instead of data")
	}
	return bridge.OverLimit(f.Limit, "the program was stopped: it reached its limit of %s", f.Limit).
		WithHint("make it hold less at once, or ask for a higher limit")
}

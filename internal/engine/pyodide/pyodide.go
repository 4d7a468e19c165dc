// Package pyodide is the engine pyodide: Pyodide, a build of CPython as WebAssembly,
// under Deno without any permission. Each program gets its own process, which begins
// from a snapshot of memory and ends with the program.
package pyodide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/worker"
	"github.com/toolroom/toolroom/sandbox"
)

// Name is the engine's id.
const Name = "pyodide"

// Installed holds the paths of the engine's parts.
type Installed struct {
	Deno    string // the program
	Pyodide string // the folder
	// Files are the names of Pyodide's files in its folder.
	Files []string
}

// Options configures the engine.
type Options struct {
	// Find returns the installed parts. It is called until it succeeds. Required.
	Find func() (Installed, error)
	// Init is the command that begins a sandbox, as in lockdown.HostMachine; empty means
	// this binary.
	Init []string
	// CacheDir keeps the snapshot of a ready interpreter, with its files: 45 MB. It must
	// be private to the user of this process. Required.
	CacheDir string
}

// Engine is the engine pyodide.
type Engine struct {
	pool *worker.Pool[*worker.Guest]

	mu     sync.Mutex
	probed *sandbox.Probe // once a guest has started
}

// maxRuns is how many programs run at once. Further programs wait.
const maxRuns = 4

// New returns the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	s := &starter{o: o, launcher: worker.NewLauncher("deno+wasm", o.Init)}
	return &Engine{pool: worker.NewPool(Name, maxRuns, s.start)}
}

// Name returns pyodide.
func (e *Engine) Name() string { return Name }

// Languages returns python.
func (e *Engine) Languages() []string { return []string{"python"} }

func held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{
		sandbox.LimitWall:    "kill",
		sandbox.LimitMemory:  "WebAssembly memory, the interpreter's included; files in memory and JavaScript by the 2 GiB of the process, in a cgroup or rlimit",
		sandbox.LimitPIDs:    "no processes inside",
		sandbox.LimitNetwork: "no sockets inside",
	}
}

// Probe starts a guest, and keeps it for the first run. After a successful start it
// returns the same probe; before that it tries again, because the missing parts may
// have been installed.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probed != nil {
		return *e.probed
	}
	g, err := e.pool.Acquire(ctx, "")
	if err != nil {
		p := sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "toolroom setup engines --with pyodide"}
		if errors.Is(err, fs.ErrNotExist) {
			p.Reason = "Deno or Pyodide is not installed"
		}
		return p
	}
	e.probed = &sandbox.Probe{
		State: sandbox.Available, Version: g.Version(), Isolation: g.Isolation(), Holds: held(),
		Lacks: map[sandbox.Limit]string{
			sandbox.LimitCPU:  "only wall time is counted",
			sandbox.LimitDisk: "files are in memory, which ends at the 2 GiB of the process",
		},
		Languages: e.Languages(),
	}
	e.pool.Release(g, true)
	return *e.probed
}

// Close ends all guests, even during runs.
func (e *Engine) Close() error {
	e.pool.Close()
	return nil
}

// Run runs one program in a process that ends with it.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Handler) (*engine.Result, error) {
	p := j.Program
	p.Limits = p.Limits.WithDefaults()
	result := &engine.Result{Engine: Name, Isolation: e.pool.Isolation(), Held: held()}
	if err := cmp.Or(checkLimits(p.Limits), engine.CheckProcessors(Name, j.Sandbox)); err != nil {
		return nil, err
	}
	if failure := unsupported(p); failure != nil {
		result.Outcome.Failure = failure
		return result, nil
	}
	started := time.Now()
	g, err := e.pool.Acquire(ctx, j.Owner)
	if err != nil {
		return result, cmp.Or(engine.Stopped(ctx), err)
	}
	defer e.pool.Release(g, false)
	result.Isolation, result.Start = g.Isolation(), time.Since(started)
	ctx, stop := deadline.WithTimeout(ctx, time.Duration(p.Limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	out, err := g.Run(ctx, p, h)
	if err != nil {
		return result, engine.WorkerLost(ctx, err)
	}
	result.Outcome = *out
	return result, limitError(ctx, out.Failure)
}

// The bounds of a program's memory limit. The interpreter itself takes 30 MiB of it.
const (
	minMemory = 48 << 20
	maxMemory = 1 << 30
)

func checkLimits(l bridge.Limits) error {
	if err := engine.CheckLimits(l); err != nil {
		return err
	}
	if l.Memory < minMemory || l.Memory > maxMemory {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "pyodide allows %d to %d MiB of memory, its interpreter included; %d were requested", minMemory>>20, maxMemory>>20, l.Memory>>20).
			WithHint("request another amount, or choose another engine")
	}
	if l.CPU > 0 {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "pyodide can limit only wall time, not CPU time").
			WithHint("limit the wall time, or choose another engine")
	}
	return nil
}

// unsupported refuses what this engine cannot do, before anything runs.
func unsupported(p bridge.Program) *bridge.Failure {
	reason := ""
	switch {
	case p.Language != "python":
		reason = fmt.Sprintf("pyodide runs python, not %q", p.Language)
	case p.Session != "" || len(p.State) > 0:
		reason = "pyodide keeps no state between runs"
	default:
		return nil
	}
	return &bridge.Failure{Kind: bridge.FailUnsupported, Type: "Unsupported", Message: reason}
}

// limitError returns the error for a failure that reports an exceeded limit, and nil for the
// program's own errors.
func limitError(ctx context.Context, f *bridge.Failure) error {
	switch {
	case f == nil:
		return nil
	case f.Kind == bridge.FailLimit:
		return bridge.OverLimit(f.Limit, "the program was stopped: it reached its limit of %s", f.Limit).
			WithHint("make it hold less at once, or ask for a higher limit")
	case f.Type == "ModuleNotFoundError":
		f.Kind = bridge.FailUnsupported // another Python may have the module: the machine's, or one with wheels
	}
	return engine.StoppedAsReported(ctx, f)
}

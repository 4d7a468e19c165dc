package pynative

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/sandbox"
)

// Engine is the engine py-native. Create it with [New].
type Engine struct {
	o     Options
	host  lockdown.HostMachine
	slots chan struct{}

	mu      sync.Mutex // guards the fields below
	folder  string     // of the Python files
	zygotes map[string]*zygote
	stats   Stats
	closed  bool

	probing    chan struct{} // has one element while a caller uses the fields below
	probe      *sandbox.Probe
	probeAfter time.Time // when to probe again, zero for never
}

// New returns the engine. Nothing is started before the first run or probe.
func New(o Options) *Engine {
	o = o.withDefaults()
	return &Engine{o: o, host: lockdown.HostMachine{Init: o.Init}, slots: make(chan struct{}, o.Runs), probing: make(chan struct{}, 1), zygotes: map[string]*zygote{}}
}

// Name returns py-native.
func (e *Engine) Name() string { return "py-native" }

// Languages returns python.
func (e *Engine) Languages() []string { return []string{"python"} }

// minimum is the least isolation of a zygote. Landlock keeps the files of one run
// from the next.
var minimum = []lockdown.Layer{lockdown.Namespaces, lockdown.Offline, lockdown.Landlock, lockdown.Seccomp}

// held says how the limits are enforced, for each process separately, because a
// process cannot create others.
func held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{
		sandbox.LimitWall:    "SIGKILL of the process",
		sandbox.LimitCPU:     "RLIMIT_CPU",
		sandbox.LimitMemory:  "RLIMIT_AS",
		sandbox.LimitNetwork: "network namespace",
	}
}

// probeAgain is the time after which a zygote that could not be started is tried again: the
// machine may have been too busy.
const probeAgain = 30 * time.Second

// Probe starts a zygote, once, and reports its isolation.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe {
	select {
	case e.probing <- struct{}{}:
		defer func() { <-e.probing }()
	case <-ctx.Done():
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: "it has not answered in time", Fix: "try again later"}
	}
	if e.probe != nil && (e.probeAfter.IsZero() || time.Now().Before(e.probeAfter)) {
		return *e.probe
	}
	p, failed := e.tryProbe(ctx)
	if ctx.Err() == nil {
		e.probe, e.probeAfter = &p, time.Time{}
		if failed {
			e.probeAfter = time.Now().Add(probeAgain)
		}
	}
	return p
}

// tryProbe probes the machine. failed means that a zygote could not be started although nothing is
// missing.
func (e *Engine) tryProbe(ctx context.Context) (p sandbox.Probe, failed bool) {
	report := e.host.Probe(ctx)
	for _, layer := range minimum {
		if f := report.Find(layer); !f.Available {
			return sandbox.Probe{State: sandbox.Unsupported, Reason: string(layer) + ": " + f.Reason, Fix: f.Fix}, false
		}
	}
	if _, err := os.Stat(e.o.Python); err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: "there is no " + e.o.Python, Fix: "install python3 (3.9 or newer)"}, false
	}
	z, err := e.startZygote(ctx, engine.Layer{})
	if err != nil {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error(), Fix: "see the reason; it needs CPython 3.9 or newer with ctypes"}, true
	}
	defer z.end()
	return sandbox.Probe{
		State: sandbox.Available, Version: "CPython " + z.version, Isolation: z.process.Layers().String(), Holds: held(),
		Lacks: map[sandbox.Limit]string{
			sandbox.LimitPIDs: "a program cannot start processes, but its threads are counted with those of its owner's other programs",
			sandbox.LimitDisk: "the programs of one owner share 64 MiB in memory",
		},
		Languages: e.Languages(),
	}, false
}

// Stats returns the current statistics.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	for _, z := range e.zygotes {
		s.Zygotes++
		s.Waiting += len(z.spare)
		s.Memory += z.process.Usage().Memory
	}
	return s
}

// Close ends all zygotes and what they forked.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	list := e.zygotes
	e.zygotes = map[string]*zygote{}
	folder := e.folder
	e.mu.Unlock()
	for _, z := range list {
		z.end()
	}
	if folder == "" {
		return nil
	}
	return os.RemoveAll(folder)
}

// Run runs one program in a process that was forked for it.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Handler) (*engine.Result, error) {
	if failure := unsupported(j); failure != nil {
		return &engine.Result{Engine: e.Name(), Isolation: "none", Outcome: bridge.Outcome{Failure: failure}}, nil
	}
	if err := sandbox.Check(e.Name(), e.Probe(ctx), j.Sandbox); err != nil {
		return nil, err
	}
	started := time.Now()
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return nil, engine.Stopped(ctx)
	}
	for {
		c, err := e.takeChild(ctx, j.Owner, j.Layer)
		if err != nil {
			if ctx.Err() != nil {
				return nil, engine.Stopped(ctx)
			}
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "forking a process for the program failed: %w", err).
				WithCLIHint("toolroom doctor shows what is missing")
		}
		result, err := e.runIn(ctx, c, j, h, started)
		if errors.Is(err, bridge.ErrNotBegun) && ctx.Err() == nil {
			c.zygote.end() // the process has ended while it waited, and probably with its zygote
			continue
		}
		return result, err
	}
}

// runIn runs a program in a forked process.
func (e *Engine) runIn(ctx context.Context, c *child, j engine.Job, h bridge.Handler, started time.Time) (*engine.Result, error) {
	defer c.kill()
	result := &engine.Result{Engine: e.Name(), Isolation: c.zygote.process.Layers().String(), Held: held(), Start: time.Since(started)}
	ctx, stop := deadline.WithTimeout(ctx, time.Duration(j.Program.Limits.WithDefaults().Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	out, err := c.conn.Run(ctx, j.Program, h)
	if errors.Is(err, bridge.ErrNotBegun) {
		return result, err
	}
	if err != nil {
		return result, explain(ctx, c, j.Program.Limits, err)
	}
	result.Outcome = *out
	result.CPU, result.PeakMemory = time.Duration(out.CPU)*time.Millisecond, out.Memory
	return result, engine.StoppedAsReported(ctx, out.Failure)
}

// unsupported refuses what this engine cannot do, before anything runs.
func unsupported(j engine.Job) *bridge.Failure {
	refuse := func(message string) *bridge.Failure {
		return &bridge.Failure{Kind: bridge.FailUnsupported, Type: "Unsupported", Message: message}
	}
	switch {
	case j.Program.Language != "python":
		return refuse(fmt.Sprintf("py-native runs python, not %q", j.Program.Language))
	case j.Program.Session != "" || len(j.Program.State) > 0:
		return refuse("py-native keeps no state between runs")
	case j.Sandbox.Profile == sandbox.Dev:
		return refuse("py-native has no network and no writable root, as the profile dev wants")
	case j.Sandbox.Limits.CPUs > 0 && !j.Sandbox.BestEffort:
		return refuse("py-native cannot hold a number of processors")
	}
	return nil
}

// deathTimeout is how long the report of a process's end may take.
const deathTimeout = time.Second

// explain returns an error that says why a run ended early.
func explain(ctx context.Context, c *child, limits bridge.Limits, err error) error {
	var known *toolroom.Error
	if errors.As(err, &known) {
		return known
	}
	if ctx.Err() != nil {
		return engine.Stopped(ctx)
	}
	c.kill()
	end, ok := c.wait(deathTimeout)
	// A program that ignores SIGXCPU gets SIGKILL at the hard limit.
	killed := end.Signal == int(syscall.SIGKILL) && limits.CPU > 0 && end.CPU >= limits.CPU
	if ok && (killed || end.Signal == int(syscall.SIGXCPU)) {
		e := toolroom.Errorf(toolroom.CodeResourceLimit, "the program exceeded the limit of CPU time")
		e.Limit = "cpu"
		return e
	}
	how := ""
	switch {
	case !ok:
		how = "; its end is not known"
	case end.Signal != 0:
		how = fmt.Sprintf("; its process was ended by %s", syscall.Signal(end.Signal))
	default:
		how = fmt.Sprintf("; its process ended with exit code %d", end.Code)
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the program ended early: %v%s", err, how).
		WithHint("other runs were not affected")
}

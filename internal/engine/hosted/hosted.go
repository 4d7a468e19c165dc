// Package hosted makes an engine of any sandbox driver: the guest inside runs
// the program with the interpreter that it finds there.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/sandbox"
)

// Engine runs programs in guests under one driver, each in a sandbox of its own.
type Engine struct {
	driver sandbox.Driver

	mu     sync.Mutex
	probed sandbox.Probe
	at     time.Time
}

// New makes an engine of a driver, which is probed at its first use.
func New(d sandbox.Driver) *Engine { return &Engine{driver: d} }

// probe asks the driver once; again after a while where it did not find out,
// for what did not answer may do so later.
func (e *Engine) probe() sandbox.Probe {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at.IsZero() || e.probed.State == sandbox.Inconclusive && time.Since(e.at) > probeAgain {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		e.probed, e.at = e.driver.Probe(ctx), time.Now()
	}
	return e.probed
}

const (
	probeTimeout = 20 * time.Second
	probeAgain   = 30 * time.Second
	startTimeout = 30 * time.Second
	killTimeout  = 10 * time.Second
)

// Name is the driver's.
func (e *Engine) Name() string { return e.driver.Name() }

// Languages are those that the guest knows to run, and whose interpreters the
// driver has found.
func (e *Engine) Languages() []string {
	known := []string{"python", "javascript", "shell", "command"}
	found := e.probe().Languages
	if len(found) == 0 { // an image that cannot be looked into
		return known
	}
	return slices.DeleteFunc(known, func(l string) bool { return l != "command" && !slices.Contains(found, l) })
}

// Probe is the driver's.
func (e *Engine) Probe(context.Context) sandbox.Probe { return e.probe() }

// Close has nothing to end: every run ends its own sandbox.
func (e *Engine) Close() error { return nil }

// Run starts a sandbox, runs the program in it, and removes it.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Host) (_ *engine.Result, err error) {
	spec := j.Sandbox
	spec.Run = j.Run
	probe := e.probe()
	if err := sandbox.Check(e.Name(), probe, spec); err != nil {
		return nil, err
	}
	if _, err := os.Stat(spec.Guest); err != nil {
		e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the guest for sandboxes is missing: %w", err)
		return nil, e.WithHint("build it with `make build`, which puts toolroom-guest beside toolroom")
	}
	limits := j.Program.Limits.WithDefaults()
	ctx, stop := patience.WithTimeout(ctx, time.Duration(limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	started := time.Now()
	box, err := e.start(ctx, spec)
	if over := stopped(ctx); err != nil && over != nil {
		return nil, over // what the driver says is only how it noticed
	}
	if err != nil {
		return nil, err
	}
	result := &engine.Result{Engine: e.Name(), Isolation: box.Isolation(), Held: box.Held()}
	defer func() {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer done()
		if kerr := box.Kill(ending); kerr != nil && err == nil {
			err = toolroom.Errorf(toolroom.CodeInternal, "the program has ended, but its sandbox could not be removed: %w", kerr)
		}
		used := box.Usage()
		result.CPU, result.PeakMemory = used.CPU, used.PeakMemory
	}()
	conn, err := bridge.Accept(ctx, box.Stream(), bridge.Options{})
	if err != nil {
		return result, e.explain(ctx, box, err)
	}
	defer conn.Close()
	result.Start = time.Since(started)
	out, err := conn.Run(ctx, j.Program, h)
	if err != nil {
		return result, e.explain(ctx, box, err)
	}
	result.Outcome = *out
	return result, nil
}

func (e *Engine) start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return e.driver.Start(ctx, spec)
}

// explain turns how a run broke off into an error that says why.
func (e *Engine) explain(ctx context.Context, box sandbox.Sandbox, err error) error {
	var known *toolroom.Error
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return stopped(ctx)
	}
	soon, done := context.WithTimeout(ctx, time.Second)
	defer done()
	message := fmt.Sprintf("the guest in the %s sandbox broke off: %v", e.Name(), err)
	exit, werr := box.Wait(soon)
	if werr == nil && exit.OOM {
		e := toolroom.Errorf(toolroom.CodeResourceLimit, "the program used more memory than it may")
		e.Details = map[string]any{"limit": "memory"}
		return e
	}
	if werr == nil {
		message += fmt.Sprintf(" (exit code %d%s) %s", exit.Code, signalled(exit.Signal), exit.Stderr)
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s", message)
}

// stopped says why a run whose context has ended was stopped; nil while it lives.
func stopped(ctx context.Context) error {
	switch {
	case errors.Is(context.Cause(ctx), engine.ErrWall):
		return toolroom.Errorf(toolroom.CodeTimeout, "the program was stopped: its time was over").
			WithHint("make it do less, or ask for a higher timeout")
	case ctx.Err() != nil:
		return toolroom.Errorf(toolroom.CodeCancelled, "the program was stopped: the call was cancelled")
	}
	return nil
}

func signalled(name string) string {
	if name == "" {
		return ""
	}
	return ", signal " + name
}

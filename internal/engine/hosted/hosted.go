// Package hosted makes an engine of any sandbox driver. The guest inside the
// sandbox runs the program with the interpreter that it finds there.
package hosted

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/js"
	"github.com/toolroom/toolroom/internal/engine/module"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

// Engine runs programs in guests under one driver, each in its own sandbox.
type Engine struct {
	// StartTimeout limits a start, from the request to the guest's hello; a minute
	// if zero. It is not part of the program's wall time, which begins afterwards.
	StartTimeout time.Duration

	driver sandbox.Driver

	mu       sync.Mutex // guards the fields below
	probed   sandbox.Probe
	probedAt time.Time
	probing  chan struct{} // closed at the end of the probe that runs; nil if none does

	prepared *js.Cache

	warm  Warm
	pools pools
}

// New returns an engine that uses a driver. It probes the driver at its first use.
func New(d sandbox.Driver) *Engine { return NewWarm(d, Warm{}) }

// NewWarm returns an engine that starts sandboxes in advance, once [Engine.Warm]
// has set their kinds.
func NewWarm(d sandbox.Driver, w Warm) *Engine {
	return &Engine{driver: d, prepared: js.NewCache(), warm: w}
}

// probe probes the driver once. If the result was inconclusive, it probes again
// after a while, because a driver that did not answer may do so later. Callers wait
// for one probe together, and each no longer than its ctx lasts.
func (e *Engine) probe(ctx context.Context) sandbox.Probe {
	e.mu.Lock()
	if known := !e.probedAt.IsZero(); known && (e.probed.State != sandbox.Inconclusive || time.Since(e.probedAt) <= probeAgain) {
		defer e.mu.Unlock()
		return e.probed
	}
	if e.probing == nil {
		e.probing = make(chan struct{})
		go e.probeNow(e.probing)
	}
	probing := e.probing
	e.mu.Unlock()
	select {
	case <-probing:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.probed
	case <-ctx.Done():
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: "it has not answered in time", Fix: "try again later"}
	}
}

// probeNow is not ended with its first caller: others wait for the result.
func (e *Engine) probeNow(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	found := e.driver.Probe(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probed, e.probedAt, e.probing = found, time.Now(), nil
	close(done)
}

const (
	probeTimeout = 60 * time.Second
	probeAgain   = 30 * time.Second
	killTimeout  = 10 * time.Second
	// exitTimeout is how long an engine waits for the exit status of a guest after its stream has
	// ended. Podman takes seconds on a busy machine.
	exitTimeout = 10 * time.Second
)

// defaultStart is the default of [Engine.StartTimeout].
const defaultStart = 60 * time.Second

// Name returns the driver's name.
func (e *Engine) Name() string { return e.driver.Name() }

// Languages returns the languages that the guest can run and whose interpreters
// the driver has found.
func (e *Engine) Languages() []string {
	known := []string{"python", "javascript", "typescript", "shell", "command", "wasm"}
	found := e.probe(context.Background()).Languages
	if len(found) == 0 { // an image that cannot be inspected
		return known
	}
	if slices.Contains(found, "javascript") {
		found = append(slices.Clone(found), "typescript")
	}
	return slices.DeleteFunc(known, func(l string) bool { return l != "command" && l != "wasm" && !slices.Contains(found, l) })
}

// Probe returns the driver's probe, which is inconclusive if ctx ends before it.
func (e *Engine) Probe(ctx context.Context) sandbox.Probe { return e.probe(ctx) }

// Close removes the sandboxes that wait and closes the driver. Every run removes
// its own sandbox.
func (e *Engine) Close() error {
	e.pools.close()
	if c, ok := e.driver.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Run starts a sandbox, runs the program in it, and removes it.
func (e *Engine) Run(ctx context.Context, j engine.Job, h bridge.Handler) (_ *engine.Result, err error) {
	spec := j.Sandbox
	spec.Run, spec.Layer = j.Run, j.Layer.Path
	probe := e.probe(ctx)
	if over := engine.Stopped(ctx); over != nil {
		return nil, over
	}
	if err := sandbox.Check(e.Name(), probe, spec); err != nil {
		return nil, err
	}
	if len(spec.Egress) > 0 && probe.Holds[sandbox.LimitEgress] != "" {
		spec.Env = append(slices.Clone(spec.Env), guest.EgressEnv+"=1")
	}
	if len(spec.Egress) > 0 && probe.Holds[sandbox.LimitEgress] != "" || j.Program.Attached {
		h = dialingHandler{h, j.Dial}
	}
	if _, err := os.Stat(spec.Guest); err != nil {
		e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the guest for sandboxes is missing: %w", err)
		return nil, e.WithHint("build it with `make build`, which puts toolroom-guest beside toolroom")
	}
	prepared, failure := e.prepare(&j.Program)
	if failure != nil {
		return &engine.Result{Outcome: bridge.Outcome{Failure: failure}, Engine: e.Name(), Isolation: probe.Isolation}, nil
	}
	started := time.Now()
	if j.StartAhead {
		spec.Env = append(slices.Clone(spec.Env), guest.AheadLanguageEnv+"="+j.Program.Language)
		if preload, err := json.Marshal(j.Layer.Preload); err == nil && len(j.Layer.Preload) > 0 {
			spec.Env = append(spec.Env, guest.PreloadEnv+"="+string(preload))
		}
	}
	for {
		var r *ready
		waited := false
		if j.Program.Attached { // a sandbox that waits has other folders
			r, err = e.startReady(ctx, spec)
		} else {
			r, waited, err = e.takeOrStart(ctx, spec, j.Program.Language, j.StartAhead)
		}
		if over := engine.Stopped(ctx); err != nil && over != nil {
			return nil, over // the driver's error is only a consequence
		}
		if err != nil {
			return nil, err
		}
		result, err := e.runIn(ctx, r, waited, j, h, prepared, started)
		if !errors.Is(err, bridge.ErrNotBegun) { // else the guest ended in the moment in which it was taken
			return result, err
		}
	}
}

// runIn runs a program in a sandbox and removes the sandbox. The error is [bridge.ErrNotBegun] if the
// sandbox had waited and its guest ended before it could read the program.
func (e *Engine) runIn(ctx context.Context, r *ready, waited bool, j engine.Job, h bridge.Handler, prepared *js.Program, started time.Time) (_ *engine.Result, err error) {
	sb, conn := r.sb, r.conn
	result := &engine.Result{Engine: e.Name(), Isolation: sb.Isolation(), Held: sb.Held()}
	defer func() {
		if used, ok := e.halt(r, j, err); ok {
			result.CPU, result.PeakMemory = used.CPU, used.PeakMemory
			return
		}
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
		defer done()
		if kerr := r.kill(ending); kerr != nil && err == nil {
			err = toolroom.Errorf(toolroom.CodeInternal, "the program has ended, but its sandbox could not be removed: %w", kerr)
		}
		used := sb.Usage()
		result.CPU, result.PeakMemory = used.CPU, used.PeakMemory
	}()
	result.Start = time.Since(started)
	limits := j.Program.Limits.WithDefaults()
	ctx, stop := deadline.WithTimeout(ctx, time.Duration(limits.Wall)*time.Millisecond, engine.ErrWall)
	defer stop()
	out, err := conn.Run(ctx, j.Program, h)
	if waited && errors.Is(err, bridge.ErrNotBegun) && ctx.Err() == nil {
		return result, bridge.ErrNotBegun
	}
	if err != nil {
		return result, e.explain(ctx, sb, err, endedDuringRun)
	}
	result.Outcome = *out
	if f := out.Failure; f != nil && prepared != nil {
		prepared.MapFailure(f)
	}
	return result, engine.StoppedAsReported(ctx, out.Failure)
}

// A halter is a sandbox that can kill its processes without waiting for their end, and
// whose removal cannot fail.
type halter interface{ Halt() }

// halt kills a sandbox whose program has ended, and removes it in the background, because an
// interpreter takes as long to exit as a short program takes to run. It returns false if the
// caller must remove the sandbox: after an error, if the program shared files with the host
// machine, or if no sandboxes are started ahead for programs of its kind.
func (e *Engine) halt(r *ready, j engine.Job, failed error) (used sandbox.Usage, ok bool) {
	h, ok := r.sb.(halter)
	if !ok || failed != nil || !j.StartAhead || j.Program.Attached || len(j.Sandbox.Folders) > 0 {
		return used, false
	}
	if used = r.sb.Usage(); used == (sandbox.Usage{}) { // it is known after the end
		return used, false
	}
	_ = r.conn.Close()
	h.Halt()
	return used, e.pools.remove(r)
}

// dialingHandler is a call handler that also makes the program's connections.
type dialingHandler struct {
	bridge.Handler
	dial func(ctx context.Context, address string) (net.Conn, error)
}

func (o dialingHandler) Dial(ctx context.Context, address string) (net.Conn, error) {
	if o.dial == nil {
		return nil, toolroom.Errorf(toolroom.CodeDenied, "programs may not make connections here")
	}
	return o.dial(ctx, address)
}

// prepare compiles a JavaScript or TypeScript program, so that no guest needs a compiler, and
// replaces the source in p. For other languages it returns nil.
func (e *Engine) prepare(p *bridge.Program) (*js.Program, *bridge.Failure) {
	if p.Language == "wasm" {
		return nil, module.Check(p.Module)
	}
	if p.Language != "javascript" && p.Language != "typescript" {
		return nil, nil
	}
	ready, failure := e.prepared.Prepare(*p)
	if failure != nil {
		return nil, failure
	}
	p.Language, p.Source = "javascript", ready.Source
	return ready, nil
}

// takeOrStart returns a sandbox for a program in a language: one that has waited in a pool, or
// else a new one. If again is set, programs of this kind have their own pool.
func (e *Engine) takeOrStart(ctx context.Context, spec sandbox.Spec, language string, again bool) (r *ready, waited bool, err error) {
	p := e.pools.forProfile(spec.Profile)
	if p != nil && again {
		p = e.pools.forKind(spec, p.warm, e.startAhead)
	}
	if p == nil {
		r, err = e.startReady(ctx, spec)
		return r, false, err
	}
	if r = p.take(spec, language); r != nil {
		return r, true, nil
	}
	if r, err = e.startReady(ctx, spec); err == nil {
		p.replaceOldest(spec)
	}
	return r, false, err
}

// startReady starts a sandbox and waits for its guest.
func (e *Engine) startReady(ctx context.Context, spec sandbox.Spec) (*ready, error) {
	timeout := cmp.Or(e.StartTimeout, defaultStart)
	starting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sb, err := e.driver.Start(starting, spec)
	if err != nil {
		return nil, err
	}
	conn, err := bridge.Accept(starting, sb.Stream(), bridge.Options{})
	if err == nil {
		return &ready{sb, conn}, nil
	}
	if starting.Err() != nil && ctx.Err() == nil {
		err = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the guest in the %s sandbox sent no hello within %s of its start", e.Name(), timeout).
			WithHint("the machine may be overloaded").WithCLIHint("toolroom doctor starts a sandbox of each kind")
	} else {
		err = e.explain(ctx, sb, err, endedBeforeStart)
	}
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer done()
	if kerr := sb.Kill(ending); kerr != nil {
		err = toolroom.Errorf(toolroom.CodeInternal, "%w; its sandbox could not be removed: %w", err, kerr)
	}
	return nil, err
}

// guestEnd describes the end of a guest for an error. It depends on when the guest ended.
type guestEnd struct {
	code      toolroom.Code
	what, fix string
}

var (
	endedBeforeStart = guestEnd{
		toolroom.CodeSandboxUnavailable, "ended before its hello",
		"the guest may have another version, or be for another processor: run make build, or rebuild the image; toolroom doctor starts a sandbox of each kind",
	}
	endedDuringRun = guestEnd{
		toolroom.CodeExecutionFailed, "ended early",
		"other runs were not affected; run the program again, and if all programs end like this, run toolroom doctor, which starts a sandbox of each kind",
	}
)

// explain returns an error that says why a run ended with its guest.
func (e *Engine) explain(ctx context.Context, sb sandbox.Sandbox, err error, d guestEnd) error {
	var known *toolroom.Error
	switch {
	case errors.As(err, &known):
		return known
	case ctx.Err() != nil:
		return engine.Stopped(ctx)
	}
	soon, done := context.WithTimeout(ctx, exitTimeout)
	defer done()
	message := fmt.Sprintf("the guest in the %s sandbox %s: %v", e.Name(), d.what, err)
	exit, werr := sb.Wait(soon)
	switch {
	case soon.Err() != nil: // the guest is still running, without its stream
	case errors.As(werr, &known):
		return known
	case werr != nil:
	case exit.OOM:
		return bridge.OverLimit("memory", "the program exceeded its memory limit")
	case exit.OutOfCPU:
		return bridge.OverLimit("cpu", "the program and its child processes exceeded the limit of CPU time")
	default:
		message += fmt.Sprintf(" (exit code %d%s) %s", exit.Code, signalled(exit.Signal), exit.Stderr)
	}
	return toolroom.Errorf(d.code, "%s", message).WithHint("%s", d.fix)
}

func signalled(name string) string {
	if name == "" {
		return ""
	}
	return ", signal " + name
}

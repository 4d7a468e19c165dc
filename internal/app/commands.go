package app

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// commands starts the commands of the built-in tools in sandboxes of drivers.
type commands struct {
	app           *App
	image         string
	limits        sandbox.Limits
	defaultLimits []sandbox.Limit // limits that are defaults
	guard         *egress.Guard   // nil if commands have no network
}

// sandboxFor returns the engine of a runtime and the specification of a command's sandbox.
func (c *commands) sandboxFor(runtime string) (*hosted.Engine, sandbox.Spec, error) {
	name, choice, _ := strings.Cut(runtime, "/")
	e, known := c.app.hostedEngine(name)
	if e == nil {
		return nil, sandbox.Spec{}, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "commands are to run in the sandbox %q, which does not exist", name).
			WithHint("write another builtin.shell.runtime: %s", strings.Join(known, ", "))
	}
	return e, sandbox.Spec{
		Profile: sandbox.Standard, Limits: c.limits, Defaulted: c.defaultLimits, Image: c.image, Runtime: choice,
		Guest: c.app.o.Guest.Path, Args: c.app.o.Guest.Args,
	}, nil
}

// Isolation implements [shell.Drivers].
func (c *commands) Isolation(ctx context.Context, runtime string) (string, *toolroom.Error) {
	e, spec, err := c.sandboxFor(runtime)
	if err != nil {
		return "", toolroom.AsError(err)
	}
	probe := e.Probe(ctx)
	spec.Folders = []sandbox.Folder{{Source: c.app.home}} // any: whether it can show one
	if err := sandbox.Check(e.Name(), probe, spec); err != nil {
		return "", toolroom.AsError(err)
	}
	return cmp.Or(probe.Runtimes[spec.Runtime], probe.Isolation), nil
}

// Start implements [shell.Drivers].
func (c *commands) Start(ctx context.Context, l shell.Launch) (*shell.Launched, error) {
	e, spec, err := c.sandboxFor(l.Runtime)
	if err != nil {
		return nil, err
	}
	spec.Folders, spec.Terminal = l.Folders, l.Rows > 0
	guard := c.guard
	if l.Online && guard != nil {
		spec.Egress = []string{config.AnyHost}
	} else {
		guard = nil
	}
	job := engine.Job{
		Run: "command", Owner: "commands", Sandbox: spec,
		Program: bridge.Program{
			Language: "command", Name: l.Command[0], Command: l.Command, Attached: true, Dir: l.Dir, Env: slices.Clone(l.Env), Rows: l.Rows, Columns: l.Columns,
			Limits: bridge.Limits{Wall: forever.Milliseconds(), Output: math.MaxInt64 / 2, Bytes: math.MaxInt64 / 2, Memory: spec.Limits.Memory},
		},
	}
	p, stdin, stdout, err := attachedProgram{who: "a command", job: job, guard: guard, stderr: l.Stderr, log: c.app.log}.start(ctx, e)
	if err != nil {
		return nil, err
	}
	return &shell.Launched{Stdin: stdin, Stdout: stdout, Done: p.Done(), Signal: p.Signal, Kill: p.Kill, Exit: p.exit}, nil
}

// exit returns how a command ended.
func (p *attachedProcess) exit() shell.Exit {
	x := shell.Exit{Code: -1}
	x.CPU, x.Memory = p.Usage()
	if p.result != nil {
		x.Code = p.result.Outcome.Exit
	}
	code, _, exited := proc.ExitOf(p.err)
	failure := toolroom.AsError(p.err)
	switch {
	case p.err == nil:
	case exited:
		x.Code = code
	case x.Code > 128: // as a shell reports a signal
		x.Signal = syscall.Signal(x.Code - 128)
	case failure.Code == toolroom.CodeResourceLimit:
		x.Exceeded = failure.Limit
	default:
		x.Err = p.err
	}
	return x
}

// Package engine is the contract of what runs a program: a language engine of
// our own (QuickJS, Monty, CPython as WebAssembly, CPython of the host), or a
// guest inside any sandbox. Every engine passes enginetest.
package engine

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/sandbox"
)

// Engine runs programs. Its methods may be called concurrently.
type Engine interface {
	// Name is the engine's id: js, py-lite, py, py-native, pyodide, or the name
	// of the sandbox driver that a guest runs under.
	Name() string
	// Languages that it runs, as in [bridge.Program].
	Languages() []string
	// Probe says whether it can run here, and within which walls.
	Probe(ctx context.Context) sandbox.Probe
	// Run runs one program in a state that no earlier program has touched,
	// Job.Program.State excepted. The deadline is the engine's own business: it
	// ends the work within Program.Limits.Wall plus 200 ms, without the time in
	// which the program waits for a person (see package patience), and at once
	// when ctx ends. It begins when the program can run: a start has a bound of
	// its own. A program that failed is a Result whose Outcome has a Failure.
	// An error is a [*toolroom.Error] for what kept the program from running or
	// ended it: timeout, cancelled, resource_limit, sandbox_unavailable,
	// limit_not_enforceable, internal. The result is then what is known, and
	// may be nil.
	Run(ctx context.Context, j Job, h bridge.Host) (*Result, error)
	// Close ends everything that the engine started.
	Close() error
}

// SessionKeeper is an [Engine] that keeps what a program leaves behind: it goes
// on from Program.State where that is not empty, and gives the state after the
// run in Outcome.State whenever Program.Session is set and the program ended by
// itself, also by failing.
type SessionKeeper interface {
	Engine
	// Sessions are the languages in which it keeps state.
	Sessions() []string
}

// ErrWall is the cause of a context whose end is that of the program's time.
var ErrWall = errors.New("the program's time is over")

// Job is one program to run, and for whom.
type Job struct {
	// Run is the id of the run, as in its receipt.
	Run string
	// Owner is the identity's key. What ran for one owner never serves another.
	Owner   string
	Program bridge.Program
	// Sandbox is what a guest runs under; our own engines have theirs fixed.
	Sandbox sandbox.Spec
	// Declare writes down the tools of Program.Tools in the program's language, for
	// programs that await or that do not, for an engine that checks types before the
	// program runs; nil where there is nothing to check with.
	Declare func(awaits bool) string
	// Dial makes the connections of a program whose Sandbox.Egress is not empty, and
	// judges them; nil makes none.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Result is how a run ended.
type Result struct {
	Outcome bridge.Outcome
	// Engine and Isolation say where it ran, for example js and
	// wasm+ns+landlock+seccomp.
	Engine    string
	Isolation string
	// Held says how each limit was held.
	Held map[sandbox.Limit]string
	// Start is how long it took until the program could run; CPU and
	// PeakMemory are measured from outside where that is possible.
	Start      time.Duration
	CPU        time.Duration
	PeakMemory int64
}

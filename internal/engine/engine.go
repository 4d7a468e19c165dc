// Package engine defines the contract of the engines that run programs: the
// language engines (QuickJS, Monty, CPython as WebAssembly, the machine's
// CPython), and guests inside any sandbox. Every engine passes enginetest.
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
	// Languages returns the languages that it runs, as in [bridge.Program].
	Languages() []string
	// Probe reports whether it can run here, and with which isolation.
	Probe(ctx context.Context) sandbox.Probe
	// Run runs one program in a state that no earlier program has touched, except
	// for Job.Program.State. The engine enforces the deadline itself: it ends the
	// work within Program.Limits.Wall plus 200 ms, not counting the time in which
	// the program waits for a person (see package deadline), and at once when ctx
	// ends. The time begins when the program can run; starting has its own limit.
	// A program that failed is a Result whose Outcome has a Failure. An error is a
	// [*toolroom.Error] that says why the program could not run or was ended:
	// timeout, cancelled, resource_limit, sandbox_unavailable,
	// limit_not_enforceable, internal. The result then holds what is known, and
	// may be nil.
	Run(ctx context.Context, j Job, h bridge.Handler) (*Result, error)
	// Close ends everything that the engine started.
	Close() error
}

// SessionEngine is an [Engine] that keeps session state. It continues from
// Program.State if that is not empty. It returns the state after the run in
// Outcome.State if Program.Session is set and the program ended by itself, even
// by failing.
type SessionEngine interface {
	Engine
	// Sessions returns the languages in which it keeps state.
	Sessions() []string
}

// NoFiles is how an engine enforces a disk limit if its programs have no files.
const NoFiles = "no files inside"

// ErrWall is the cause of a context that ended because the program's time is over.
var ErrWall = errors.New("the program's time is over")

// Job is one program to run, and its owner.
type Job struct {
	// Run is the id of the run, as in its receipt.
	Run string
	// Owner is the identity's key. A worker of one owner never serves another.
	Owner   string
	Program bridge.Program
	// Sandbox configures the sandbox of a guest; the language engines have a fixed one.
	Sandbox sandbox.Spec
	// Declare returns declarations of Program.Tools in the program's language, for
	// programs that await calls or do not. An engine that checks types before the
	// program runs uses it. It is nil if there are no declarations.
	Declare func(awaits bool) string
	// Layer holds packages for the program. An engine that cannot show it to the program
	// refuses the job with limit_not_enforceable.
	Layer Layer
	// StartAhead means that programs of this kind will come again, so the engine may start
	// sandboxes for them in advance, each for one program.
	StartAhead bool
	// Dial authorizes and makes the connections of a program whose Sandbox.Egress
	// is not empty, and the line of an attached program to [bridge.StdioAddress]. If it is
	// nil, the program cannot connect.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// A Retirer is an engine that keeps idle processes which have loaded the packages of layers.
type Retirer interface {
	// Retire ends the idle processes of a layer that no released version uses any more, and busy
	// ones after their program. A later program of the layer starts a new process.
	Retire(Layer)
}

// Layer is a folder of unpacked packages that programs may import. The zero value is none.
type Layer struct {
	// Digest identifies the content, and Path is the folder.
	Digest, Path string
	// Preload are the modules to import before a program comes, if the engine can.
	Preload []string
}

// Result is how a run ended.
type Result struct {
	Outcome bridge.Outcome
	// Engine and Isolation say where the program ran, for example js and
	// wasm+ns+landlock+seccomp.
	Engine    string
	Isolation string
	// Held says how each limit was enforced.
	Held map[sandbox.Limit]string
	// Start is the time until the program could run. CPU and PeakMemory are
	// measured from outside if possible.
	Start      time.Duration
	CPU        time.Duration
	PeakMemory int64
}

// Package source defines the contract between Toolroom and sources of tools. To
// add a kind of source, implement [Source] and test it with package sourcetest.
//
// A source offers more by implementing some of six further interfaces: [Describer],
// [Notifier], [Predictor], [Refiner], [Sandboxed] and [Library]. [As] finds them, also
// behind wrappers.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
)

// Source provides tools. It need not deal with policy, receipts or limits: the
// runner has done so before it calls Call.
type Source interface {
	// Tools lists every tool that the source has now. Their ids are canonical, in
	// the namespace that the source was created with. The catalog calls Tools once
	// at registration and again after each change that the source announces.
	// Cancelling ctx ends the work. An error means that the list is unknown; an
	// empty list means that there are no tools.
	Tools(ctx context.Context) ([]toolroom.Tool, error)

	// Call runs one tool and is called concurrently. When ctx ends, Call must
	// end the work itself (process group, request, remote run) and return
	// soon. It reports work that cannot be stopped in Output.Effects.
	//
	// If the tool ran and failed, Call returns an Output with Failed set. If the
	// tool could not run or its result could not be read, Call returns an error.
	// An [*toolroom.Error] keeps its code; any other error becomes
	// execution_failed.
	Call(ctx context.Context, req *Request) (*Output, error)

	// Close ends everything that the source started and returns when all of it
	// has ended. It is idempotent. Calls in flight end with an error.
	Close() error
}

// Describer is implemented by sources that can describe themselves, for search
// and for people.
type Describer interface {
	// Describe may be called at any time and never blocks on the network.
	Describe() Description
}

// Notifier is implemented by sources that report something outside of calls, such as
// that their tools have changed.
type Notifier interface {
	// Notify sets the functions that the source calls. It is called at most once,
	// before any other method.
	Notify(events Events)
}

// Refiner is implemented by sources that know more tools, or more of their tools, than
// they list, for example from the help text of a program.
type Refiner interface {
	// Refine returns the tool with all details that can be found. The source also
	// announces that its tools have changed. ErrNotRefined means that no further
	// details exist.
	Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error)

	// Subcommand returns the tool and the arguments by which a sub-command of a
	// command-line program runs that has no tool of its own. ok is false if there is no
	// such sub-command. It starts nothing.
	Subcommand(name string, arguments json.RawMessage) (tool string, changed json.RawMessage, ok bool)
}

// Sandboxed is implemented by sources whose calls run in a sandbox and enforce
// [Request.Isolation]. If policy requires isolation, Toolroom refuses calls of any other
// source.
type Sandboxed interface {
	// Isolation returns the isolation in which the call would run, in the words of
	// [toolroom.Execution]: the weakest that satisfies req.Isolation. It is empty if
	// it cannot be known. If the policy decision depended on it, the call runs in
	// this isolation or a stronger one.
	Isolation(ctx context.Context, req *Request) string

	// Resumes reports whether the source can resume the call with this id after it was
	// interrupted, even after the process has ended, without doing anything twice. The
	// runner then calls it again under the same id.
	Resumes(ctx context.Context, call string) bool
}

// ErrHandedOver is the cause ([context.Cause]) of the end of a call that another
// process resumes with [Request.Resume]. The source must not stop the work that
// the call began.
var ErrHandedOver = errors.New("another process continues this call")

// ErrNotRefined is returned by [Refiner.Refine] if no further details exist.
var ErrNotRefined = errors.New("there are no further details of this tool")

// As returns s as a T if s or a source that it wraps implements T. A wrapper has
// a method Unwrap that returns the wrapped source.
func As[T any](s Source) (T, bool) {
	for s != nil {
		if found, ok := s.(T); ok {
			return found, true
		}
		wrapper, ok := s.(interface{ Unwrap() Source })
		if !ok {
			break
		}
		s = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// Description describes a source.
type Description struct {
	Kind  toolroom.SourceKind `json:"kind"`
	Title string              `json:"title,omitempty"`
	// Text is the source's own description, for example the instructions of an
	// MCP server.
	Text string `json:"text,omitempty"`
	// State is a word for people: ready, idle, connecting, backing off, waiting
	// for authorisation, broken, draining, closed.
	State string `json:"state,omitempty"`
	// Reason explains State and says what to do.
	Reason string `json:"reason,omitempty"`
	// Process is the program that runs for the source now, or nil.
	Process *Process `json:"process,omitempty"`
	// Output is the end of what the source's program has written to standard error, also
	// of one that has ended.
	Output string `json:"output,omitempty"`
	// LeftOut names what the source offered in its last list and cannot be a tool, each
	// with the reason.
	LeftOut []string `json:"left_out,omitempty"`
	// CancelsPromptly means that every call returns soon after its context ends,
	// whatever its tool does. The runner then needs no goroutine to abandon a call that
	// does not return. It must not change while the source lives.
	CancelsPromptly bool `json:"-"`
}

// Process is a program that runs for a source.
type Process struct {
	PID int `json:"pid"`
	// Memory is the memory that it and its children use now, in bytes, or zero if
	// it cannot be measured.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Stderr is the end of its standard error output.
	Stderr string `json:"stderr,omitempty"`
}

// Request is one call as a source sees it.
type Request struct {
	// Call is the call's id in events and receipts.
	Call string
	Tool toolroom.ID
	// Arguments is a JSON object that is valid against the tool's input schema. The
	// source must not change it.
	Arguments      json.RawMessage
	Identity       toolroom.Identity
	IdempotencyKey string
	// Session names the conversation that the call belongs to, as in [toolroom.Call]. A
	// call from inside a tool has that of the call around it.
	Session string
	// Environment is that of the call; empty means prod.
	Environment string
	// Meta and More are as in [toolroom.Call].
	Meta, More json.RawMessage
	// Budget is the budget of the whole call tree if this call is its root, else
	// nil.
	Budget *toolroom.Budget
	// Emit sends progress, chunk, log and notice events while the tool runs. It
	// fills in call, tool and time, may block for backpressure, and does nothing
	// after the call has ended. It is never nil.
	Emit func(toolroom.Event)
	// Isolation is the weakest isolation that policy permits for the call, in the
	// words of package policy; empty requires none. It is set for
	// [Sandboxed] sources only.
	Isolation string
	// Engine is the only engine or runtime that policy permits for the call; empty
	// permits any. Like Isolation it is set for [Sandboxed] sources only.
	Engine string
	// Forbidden are the policy's rules about effects that the programs of the call must
	// not break: effects whose targets are patterns, as policy writes them. It holds
	// those of which [Predictor.Enforces] has returned true.
	Forbidden []toolroom.Effect
	// MayHaveBegun means that the call may have begun before, in this or another process.
	// It is set for [Sandboxed] sources only.
	MayHaveBegun bool
	// Ask puts questions to the client that made the call. It is never nil.
	Ask Asker
	// Task turns the call into a task, or is nil. The source calls it, at most once,
	// when it has started work that continues by itself. The client is notified and
	// does not wait, and the call has the time limit of a task. Questions then go to
	// the Asker that Task returns. Call still returns when the work is done.
	Task func(ctx context.Context, state json.RawMessage) (Asker, error)
	// Resume is the state that an earlier, interrupted Call passed to Task. The
	// source must continue that work and not start it again.
	Resume json.RawMessage
}

// Output is the result of a tool.
type Output struct {
	// Value is JSON; empty means no value.
	Value   json.RawMessage
	Content []toolroom.Content
	// Failed means that the tool ran and reported a failure; Content or Value says
	// why.
	Failed bool
	// Effects says whether a failed call had effects; empty means unknown.
	Effects toolroom.Effects
	// Unsent means that a failed call never reached its tool: nothing of it was
	// sent or started. The source must know this itself and not rely on the tool.
	Unsent bool
	// Raw is the response byte for byte if the protocol can be passed through.
	// Together with an error, it is the protocol's error.
	Raw json.RawMessage
	// Execution describes how a program ran.
	Execution *toolroom.Execution
	// CPU and PeakMemory are measured by sources that run processes.
	CPU        time.Duration
	PeakMemory int64
}

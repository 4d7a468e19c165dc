// Package source is the contract between Toolroom and the places that tools
// come from. To add a kind of source, implement [Source] and run the suite in
// package sourcetest against it.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
)

// Source is a place that tools come from. A source knows nothing of policy,
// receipts or limits: the runner has dealt with them before Call.
type Source interface {
	// Tools lists every tool that the source has now, with canonical ids whose
	// namespace is the one that the source was made with. The catalog calls it
	// once at registration and again after each change that the source
	// notifies. Cancelling ctx ends the work. An error means that the list is
	// not known; an empty list means that there are no tools.
	Tools(ctx context.Context) ([]toolroom.Tool, error)

	// Call runs one tool and is called concurrently. When ctx ends, Call must
	// end the work itself (process group, request, remote run) and return
	// soon; what cannot be stopped is reported through Output.Effects.
	//
	// A tool that ran and failed is an Output with Failed set. An error is for
	// what kept the tool from running or answering; an [*toolroom.Error] keeps
	// its code, any other becomes execution_failed.
	Call(ctx context.Context, req *Request) (*Output, error)

	// Close ends everything that the source started and returns when nothing
	// of it is left. It is idempotent. Calls in flight end with an error.
	Close() error
}

// Notifier is implemented by sources whose tools can change by themselves.
type Notifier interface {
	// Notify sets the function that the source calls after its tools have
	// changed. It is called at most once, before any other method, and changed
	// may be called from any goroutine.
	Notify(changed func())
}

// Isolator is implemented by sources that hold each call to
// [Request.Isolation]. A call of any other source that needs some is refused.
type Isolator interface {
	// Isolates does nothing.
	// Isolation names the walls that this call would run behind, as
	// [toolroom.Execution] does: the weakest that hold req.Isolation. It is empty
	// when they cannot be known. A call is run behind them, or stronger ones, where
	// the decision depended on them.
	Isolation(ctx context.Context, req *Request) string
}

// Stopper is implemented by sources that can promise that each call returns soon
// after its context ends, whatever the tool does. Then nobody stands by to leave
// it behind.
type Stopper interface {
	// Stops reports whether the source promises that.
	Stops() bool
}

// Resumer is implemented by sources that can go on with a call that was cut off,
// also by the end of the process, without doing anything twice.
type Resumer interface {
	// Resumes reports whether it can go on with the call of this id, which is
	// then called again under the same id.
	Resumes(ctx context.Context, call string) bool
}

// Describer is implemented by sources that can say what they are, for search
// and for people.
type Describer interface {
	// Describe may be called at any time and never blocks on the network.
	Describe() Description
}

// Refiner is implemented by sources that learn the details of a tool only when
// somebody asks, for example from the help text of a program.
type Refiner interface {
	// Refine gives the tool with all that can be known of it. The source also
	// notifies that its tools have changed. ErrNotRefined means that there is
	// no more to know.
	Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error)
}

// ErrLeft is the cause ([context.Cause]) of the end of a call that another
// process will carry on with [Request.Resume]: what was begun must go on.
var ErrLeft = errors.New("another process carries this on")

// Cancelled is the cause ([context.Cause]) of the end of a call that its client has
// cancelled, or of a question that its server has withdrawn, with a message that
// says so.
type Cancelled struct {
	// Said are the parameters of MCP's notifications/cancelled, as they were sent.
	Said json.RawMessage
}

// Error is the reason that was given.
func (c *Cancelled) Error() string {
	var said struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(c.Said, &said) != nil || said.Reason == "" {
		return context.Canceled.Error()
	}
	return said.Reason
}

// Is makes it a [context.Canceled].
func (c *Cancelled) Is(target error) bool { return target == context.Canceled }

// ErrNotRefined is returned by a Refiner that has no more to tell.
var ErrNotRefined = errors.New("there is no more to know of this tool")

// As finds what a source implements besides [Source], in itself or in what it
// wraps: a wrapper has a method Unwrap that gives the source inside.
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

// Description says what a source is.
type Description struct {
	Kind  toolroom.SourceKind `json:"kind"`
	Title string              `json:"title,omitempty"`
	// Text is what the source says of itself, for example the instructions of
	// an MCP server.
	Text string `json:"text,omitempty"`
	// State is a word for people: ready, idle, connecting, backing off, waiting
	// for authorisation, broken, draining, closed.
	State string `json:"state,omitempty"`
	// Reason says why State is what it is, and what to do.
	Reason string `json:"reason,omitempty"`
	// Process is the program that runs for the source now, nil for none.
	Process *Process `json:"process,omitempty"`
}

// Process is a program that runs for a source.
type Process struct {
	PID int `json:"pid"`
	// Memory is what it and its children hold now, in bytes; zero where that
	// cannot be known.
	Memory int64 `json:"memory_bytes,omitempty"`
	// Stderr is the end of what it wrote there.
	Stderr string `json:"stderr,omitempty"`
}

// Request is one call as a source sees it.
type Request struct {
	// Call is the call's id in events and receipts.
	Call string
	Tool toolroom.ID
	// Arguments is a JSON object that has passed the tool's input schema. It
	// must not be changed.
	Arguments      json.RawMessage
	Identity       toolroom.Identity
	IdempotencyKey string
	// Meta and More are as in [toolroom.Call].
	Meta, More json.RawMessage
	// Budget is that of the whole call tree when this call is the first of it,
	// else nil.
	Budget *toolroom.Budget
	// Emit sends progress, chunk, log and notice events while the tool runs. It fills
	// in call, tool and time, may block for backpressure, and does nothing
	// after the call has ended. It is never nil.
	Emit func(toolroom.Event)
	// Isolation is the least isolation that policy lets the call run in, in the
	// words of package policy; empty asks for none. Only an [Isolator] is given
	// one.
	Isolation string
	// Engine is the one engine or runtime that policy lets the call run on; empty
	// is any. Like Isolation it is for an [Isolator].
	Engine string
	// Again says that the call may have begun before, in this process or in
	// another one. Only a [Resumer] is called so.
	Again bool
	// Ask puts questions to the client that made the call. It is never nil.
	Ask Asker
	// Task, where it is not nil, makes the call a task once the source has begun
	// something that goes on by itself: the client is told so and does not wait,
	// and the time of the call is that of a task. Questions go to the Asker that
	// it gives. It is called at most once. Call returns when all is done, as ever.
	Task func(ctx context.Context, state json.RawMessage) (Asker, error)
	// Resume is the state that an earlier Call gave to Task, which ended in the
	// middle: what was begun is to be carried on, and not begun again.
	Resume json.RawMessage
}

// Output is what a tool gave back.
type Output struct {
	// Value is JSON, empty for no value.
	Value   json.RawMessage
	Content []toolroom.Content
	// Failed says that the tool ran and reports failure; Content or Value says
	// why.
	Failed bool
	// Effects is what is known of a failed call's effects; empty means unknown.
	Effects toolroom.Effects
	// Unsent says that a call which failed never reached its tool: nothing of it
	// was sent or started, by this source's own knowledge and not by its tool's
	// word.
	Unsent bool
	// Raw is the answer byte for byte, where the protocol can be relayed: beside an
	// error, the error of the protocol.
	Raw json.RawMessage
	// Execution says how a program ran.
	Execution *toolroom.Execution
	// CPU and PeakMemory are measured by sources that run processes.
	CPU        time.Duration
	PeakMemory int64
}

// Package program makes a Python program ready for Monty, which runs a part of
// Python: it refuses, before anything runs, what Monty would not run, and calls
// of tools that cannot be meant; and it rewrites what only has another form
// there. Lines stay, and columns are told as the author has them.
package program

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// Ready is a program that Monty can be fed.
type Ready struct {
	// Source is what Monty runs.
	Source string
	// Awaits says that the program awaits: its calls of tools are then under way
	// at once, and their answers are futures.
	Awaits bool
	// Catches says that the program names ToolError: a failed tool then raises
	// [ToolErrorClass], and else the class that is Python's idiom.
	Catches bool
	// Spelled are names in subscripts, such as tools["docker-compose"], by the
	// identifiers that they became.
	Spelled map[string]string

	name  string
	lines []string // of the author's text
	edits []edit
	// calls are where tools are called, for those that are told of too late.
	calls  []call
	script *script
	known  *tools
	// earlier are names that programs before this one of the session have bound.
	earlier []string
}

// ToolErrorClass stands for ToolError, since Monty has no classes of exceptions
// but Python's own. Nothing else raises this one: there are no files.
const ToolErrorClass = "NotADirectoryError"

// ErrorDetails is the function that gives the details of a caught error.
const ErrorDetails = "toolroom_error_details"

// Prepare makes a program ready, or says why it is refused. Earlier are the names
// that [Ready.Bound] gave of the program before it in its session.
func Prepare(p bridge.Program, earlier []string) (*Ready, *bridge.Failure) {
	s := newScript(p.Source)
	for _, name := range earlier {
		s.bind(name)
	}
	ready := &Ready{name: p.Name, earlier: earlier, lines: strings.Split(p.Source, "\n"), Spelled: map[string]string{}}
	ready.Awaits = s.mentions("await") || s.mentions("async")
	ready.Catches = s.mentions("ToolError")
	if r := s.refuse(p, ready.Awaits); r != nil {
		return nil, ready.failure(bridge.FailUnsupported, r)
	}
	known := newTools(p.Tools, p.Unknown)
	ready.script, ready.known = s, known
	ready.calls = s.calls(known)
	if r := s.check(known, ready.calls, ready.Awaits); r != nil {
		return nil, ready.failure(bridge.FailCheck, r)
	}
	ready.edits = s.rewrite(known, ready.Spelled)
	ready.Source = apply(p.Source, ready.edits)
	return ready, nil
}

// Bound are the names that the program binds for the programs after it in its
// session, and those that were bound before it, in order. It rather names one too
// many.
func (r *Ready) Bound() []string {
	return slices.Sorted(maps.Keys(r.script.global))
}

// problem is why a program is refused, and where.
type problem struct {
	at      int // byte
	message string
}

func (r *Ready) failure(kind bridge.FailureKind, p *problem) *bridge.Failure {
	f := &bridge.Failure{Kind: kind, Message: p.message, File: r.name}
	source := strings.Join(r.lines, "\n")
	f.Line, f.Column = position(source, p.at)
	return f
}

// Forgotten says that the answer of a call was never awaited. Which call is
// known where there is only one that is not awaited at once.
func (r *Ready) Forgotten() *bridge.Failure {
	for _, c := range r.calls {
		if !c.awaited && c.tool != nil {
			return r.failure(bridge.FailCheck, &problem{c.at, forgotten(c.tool)})
		}
	}
	return &bridge.Failure{Kind: bridge.FailCheck, File: r.name, Message: "the answer of a tool is used without await: write `await` before the call"}
}

// Package program prepares a Python program for Monty, which runs a part of Python. Before
// anything runs, it refuses what would fail in Monty only after tools have been called, and
// wrong calls of tools. It rewrites features that have another form there. Lines stay, and
// columns are those of the author's text.
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
	// Awaits reports whether the program uses await. Its tool calls then start at once,
	// and their answers are futures.
	Awaits bool
	// Catches reports whether the program names ToolError. A failed tool then raises
	// [ToolErrorClass], and otherwise the class that Python programs expect.
	Catches bool
	// Spelled maps identifiers to the names in subscripts that they replaced, such as
	// tools["docker-compose"].
	Spelled map[string]string

	name  string
	lines []string // of the author's text
	edits []edit
	// calls are the tool calls, to find the one behind a late error.
	calls  []call
	script *script
	known  *tools
	// earlier are the names that earlier programs of the session have bound.
	earlier []string
}

// ToolErrorClass stands for ToolError, because Monty has only Python's own exception
// classes. Nothing else raises this one, because there are no files.
const ToolErrorClass = "NotADirectoryError"

// ErrorDetails is the name of the function that returns the details of a caught error.
const ErrorDetails = "toolroom_error_details"

// Prepare prepares a program, or returns why it is refused. Earlier is what [Ready.Bound]
// returned for the previous program of its session.
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

// Bound returns, in order, the names that this program and earlier ones bind for later
// programs of the session. It may return a name too many.
func (r *Ready) Bound() []string {
	return slices.Sorted(maps.Keys(r.script.global))
}

// problem is the reason why a program is refused, and its position.
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

// Forgotten returns the failure of a program that never awaited the answer of a call. It
// has the position of the call if only one is not awaited at once.
func (r *Ready) Forgotten() *bridge.Failure {
	for _, c := range r.calls {
		if !c.awaited && c.tool != nil {
			return r.failure(bridge.FailCheck, &problem{c.at, forgotten(c.tool)})
		}
	}
	return &bridge.Failure{Kind: bridge.FailCheck, File: r.name, Message: "the answer of a tool is used without await: write `await` before the call"}
}

// Package program prepares a Python program for Monty, which runs a part of Python. Before
// the program runs, it refuses features that would fail in Monty only after tools have been
// called, and wrong calls of tools. It rewrites features that have another form in Monty, and
// maps positions back to the author's text.
package program

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// Prepared is a program that Monty can run.
type Prepared struct {
	// Source is the rewritten text, which Monty runs. Its lines are the author's lines.
	Source string
	// Awaits reports whether the program uses await. Its tool calls then start at once,
	// and their answers are futures.
	Awaits bool
	// CatchesToolError reports whether the program mentions ToolError. A failed tool then
	// raises [ToolErrorClass], and otherwise the class that Python programs expect.
	CatchesToolError bool
	// OriginalNames maps identifiers to the names that they have replaced, from subscripts such
	// as tools["docker-compose"].
	OriginalNames map[string]string

	name  string
	lines []string // of the author's text
	edits []edit
	// calls are the tool calls, to find the one that caused an error at run time.
	calls  []call
	script *script
	known  *toolIndex
	// sessionNames are the names that earlier programs of the session have bound.
	sessionNames []string
}

// ToolErrorClass is the exception class that stands for ToolError, because Monty has only
// Python's own exception classes. Nothing else raises this one, because there are no files.
const ToolErrorClass = "NotADirectoryError"

// ErrorDetails is the name of the function that returns the details of a caught error.
const ErrorDetails = "toolroom_error_details"

// Prepare prepares a program, or returns why it is refused. Earlier is the result of
// [Prepared.BoundNames] for the previous program of its session.
func Prepare(p bridge.Program, earlier []string) (*Prepared, *bridge.Failure) {
	s := newScript(p.Source)
	for _, name := range earlier {
		s.bindGlobal(name)
	}
	ready := &Prepared{name: p.Name, sessionNames: earlier, lines: strings.Split(p.Source, "\n"), OriginalNames: map[string]string{}}
	ready.Awaits = s.mentions("await") || s.mentions("async")
	ready.CatchesToolError = s.mentions("ToolError")
	if r := s.findUnsupported(p, ready.Awaits); r != nil {
		return nil, ready.failure(bridge.FailUnsupported, r)
	}
	known := newTools(p.Tools, p.Unknown)
	ready.script, ready.known = s, known
	ready.calls = s.findCalls(known)
	if r := s.checkCalls(known, ready.calls, ready.Awaits); r != nil {
		return nil, ready.failure(bridge.FailCheck, r)
	}
	ready.edits = s.rewrite(known, ready.OriginalNames)
	ready.Source = applyEdits(p.Source, ready.edits)
	return ready, nil
}

// BoundNames returns, sorted, the names that this program and earlier ones bind for later
// programs of the session. It may return more names than that.
func (r *Prepared) BoundNames() []string {
	return slices.Sorted(maps.Keys(r.script.global))
}

// problem is the reason why a program is refused, and its position.
type problem struct {
	at      int // byte offset
	message string
}

func (r *Prepared) failure(kind bridge.FailureKind, p *problem) *bridge.Failure {
	f := &bridge.Failure{Kind: kind, Message: p.message, File: r.name}
	source := strings.Join(r.lines, "\n")
	f.Line, f.Column = position(source, p.at)
	return f
}

// MissingAwait returns the failure of a program that never awaited the future of a call. Its
// position is that of the first call that is not awaited at once, if there is one.
func (r *Prepared) MissingAwait() *bridge.Failure {
	for _, c := range r.calls {
		if !c.awaited && c.tool != nil {
			return r.failure(bridge.FailCheck, &problem{c.at, missingAwaitMessage(c.tool)})
		}
	}
	return &bridge.Failure{Kind: bridge.FailCheck, File: r.name, Message: "the answer of a tool is used without await: write `await` before the call"}
}

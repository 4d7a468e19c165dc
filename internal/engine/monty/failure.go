package monty

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// raisedError is a tool error that was raised in the program as an exception. Monty's
// exceptions have only a class and a message; by these the tool error is found again.
type raisedError struct {
	*protocol.Exception
	toolErr *toolroom.Error
	class   string // the exception's class in other engines
}

// errorClasses are the exceptions for failed tools by their code: the class that Monty raises,
// and the class in other engines.
var errorClasses = map[toolroom.Code][2]string{
	toolroom.CodeDenied: {"PermissionError", "ToolDenied"}, toolroom.CodeApprovalDeclined: {"PermissionError", "ToolDenied"},
	toolroom.CodeApprovalExpired: {"PermissionError", "ToolDenied"}, toolroom.CodeApprovalRequired: {"PermissionError", "ToolDenied"},
	toolroom.CodeUnauthenticated: {"PermissionError", "ToolDenied"}, toolroom.CodeInvalidArguments: {"ValueError", "ToolArgumentError"},
	toolroom.CodeInvalidID: {"ValueError", "ToolArgumentError"}, toolroom.CodeToolNotFound: {"LookupError", "ToolNotFound"},
	toolroom.CodeNotFound: {"LookupError", "ToolNotFound"}, toolroom.CodeAmbiguousTool: {"LookupError", "ToolNotFound"},
	toolroom.CodeTimeout: {"TimeoutError", "ToolTimeout"},
}

// toException converts a tool's error to an exception that the program can catch, and records
// it for [run.findRaised].
func (r *run) toException(err error) *protocol.Exception {
	e := toolroom.AsError(err)
	names, ok := errorClasses[e.Code]
	if !ok {
		names = [2]string{"RuntimeError", "ToolError"}
	}
	if r.ready.CatchesToolError {
		names[0] = program.ToolErrorClass
	}
	message := fmt.Sprintf("%s [%s]", e.Message, e.Code)
	if e.Hint != "" {
		message += " (" + e.Hint + ")"
	}
	x := &protocol.Exception{Type: names[0], Message: message}
	r.raisedErrors = append(r.raisedErrors, raisedError{x, e, names[1]})
	return x
}

// findRaised returns the tool error that was raised as an exception, or nil.
func (r *run) findRaised(x *protocol.Exception) *raisedError {
	for i := len(r.raisedErrors) - 1; i >= 0; i-- {
		if known := &r.raisedErrors[i]; known.Type == x.Type && known.Message == x.Message {
			return known
		}
	}
	return nil
}

// errorDetails returns an object with the details of a caught error.
func (r *run) errorDetails(args []any) any {
	if len(args) != 1 {
		return nil
	}
	x, ok := args[0].(*protocol.Exception)
	if !ok {
		t := valueReader{names: r.names}
		v, m := t.value(args[0], 0)
		if m != nil { // the program has given another value the name of the error
			return protocol.Instance{ID: r.names.addObject(nil), Class: "value"}
		}
		return r.toProgram(v)
	}
	known := r.findRaised(x)
	if known == nil {
		return protocol.Instance{ID: r.names.addObject(nil), Class: x.Type}
	}
	e := known.toolErr
	var more bridge.Value = bridge.Map{}
	if raw, err := json.Marshal(e.AllDetails()); err == nil && len(e.AllDetails()) > 0 {
		more, _ = bridge.FromJSON(raw)
	}
	return protocol.Instance{ID: r.names.addObject(nil), Class: known.class, Attrs: bridge.Map{
		{Key: "code", Value: string(e.Code)},
		{Key: "phase", Value: string(e.Phase)},
		{Key: "tool", Value: e.Tool},
		{Key: "retryable", Value: e.Retryable},
		{Key: "hint", Value: e.Hint},
		{Key: "message", Value: e.Message},
		{Key: "details", Value: more},
	}}
}

// newOutcome converts the last event of a program to its outcome.
func (r *run) newOutcome(e protocol.Event) *bridge.Outcome {
	out := &bridge.Outcome{CPU: int64(e.CPUMicros+999) / 1000, Calls: r.callCount, Received: r.callBytes}
	switch {
	case e.Error != nil:
		out.Failure = r.newFailure(e.Error)
	case len(r.futures) > 0 && r.ready.Awaits:
		out.Failure = r.ready.MissingAwait()
	default:
		if o, ok := e.Value.(protocol.Opaque); ok && strings.HasPrefix(string(o), "<coroutine external_future") {
			out.Failure = r.ready.MissingAwait()
			break
		}
		t := valueReader{names: r.names}
		m := tooManyPieces()
		if !e.TooManyValues {
			out.Value, m = t.value(e.Value, 0)
		}
		if m != nil {
			out.Failure = &bridge.Failure{Kind: bridge.FailValue, Message: m.at("value").Error(), File: r.p.Name}
		}
	}
	return out
}

// newFailure converts an uncaught exception to a failure, with positions in the author's text.
func (r *run) newFailure(x *protocol.Exception) *bridge.Failure {
	f := &bridge.Failure{Kind: bridge.FailProgram, Type: x.Type, Message: x.Message, File: r.p.Name}
	if n := len(x.Frames); n > 0 {
		last := x.Frames[n-1]
		f.Line, f.Column = last.Line, r.ready.AuthorColumn(last.Line, last.Column)
	}
	if known := r.findRaised(x); known != nil {
		f.Type, f.Tool = known.class, known.toolErr
	}
	switch {
	case x.Type == "SyntaxError":
		f.Kind = bridge.FailSyntax
	case x.Type == "MemoryError" && strings.HasPrefix(x.Message, "memory limit exceeded"):
		f.Kind, f.Limit, f.Message = bridge.FailLimit, "memory", "the program ran out of memory"
	case x.Type == "TimeoutError" && strings.HasPrefix(x.Message, "feed time limit exceeded"):
		f.Kind, f.Limit, f.Message = bridge.FailLimit, "cpu", "the program used all its CPU time"
	case isUnsupported(x):
		f.Kind = bridge.FailUnsupported
	case strings.HasPrefix(x.Message, "'coroutine' object "):
		f.Message += ": the answer of a tool is a value only after `await`"
	}
	f.Trace = r.traceback(x, f)
	return f
}

// isUnsupported reports whether an error says that Monty lacks a feature of Python. Another
// engine can run the program then: the calls until now are in the journal of the run.
func isUnsupported(x *protocol.Exception) bool {
	switch x.Type {
	case "ModuleNotFoundError":
		return true
	case "ImportError":
		return strings.HasPrefix(x.Message, "cannot import name")
	case "AttributeError":
		return strings.HasPrefix(x.Message, "module '") || strings.HasPrefix(x.Message, "type object '")
	case "NotImplementedError":
		for _, beginning := range []string{"The monty syntax parser", "Wildcard imports", "cannot reassign read-only"} {
			if strings.HasPrefix(x.Message, beginning) {
				return true
			}
		}
	}
	return strings.Contains(x.Message, "is not yet supported") || strings.Contains(x.Message, "not supported in this environment") ||
		strings.HasPrefix(x.Message, "Internal error in monty")
}

// maxFrames is how many frames a traceback shows at each of its ends.
const maxFrames = 20

// traceback returns the traceback of an exception as Python writes it.
func (r *run) traceback(x *protocol.Exception, f *bridge.Failure) string {
	var b strings.Builder
	if len(x.Frames) > 0 {
		b.WriteString("Traceback (most recent call last):\n")
	}
	for i, frame := range x.Frames {
		if i >= maxFrames && i < len(x.Frames)-maxFrames {
			if i == maxFrames {
				fmt.Fprintf(&b, "  [%d more]\n", len(x.Frames)-2*maxFrames)
			}
			continue
		}
		file, line := r.p.Name, r.ready.AuthorLine(frame.Line)
		if frame.File != x.Frames[0].File {
			file, line = "an earlier run", frame.Text
		}
		function := frame.Function
		if function == "" {
			function = "<module>"
		}
		fmt.Fprintf(&b, "  File %q, line %d, in %s\n    %s\n", file, frame.Line, function, strings.TrimSpace(line))
	}
	b.WriteString(f.Error())
	b.WriteByte('\n')
	return b.String()
}

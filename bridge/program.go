package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// Program is what a guest runs: a program in a language, a command with
// arguments, or a WebAssembly module.
type Program struct {
	// Language is python, javascript, typescript, shell, command or wasm.
	Language string
	// Name names the program in tracebacks, for example main.py.
	Name string
	// Source is the text of the program; Module is the bytes of a wasm module.
	Source string
	Module []byte
	// Command is the command with its arguments, for language command. For shell
	// and wasm it is the arguments alone.
	Command []string
	// Env holds additional environment variables of the program, as KEY=VALUE.
	Env []string
	// Bundled means that Source, in JavaScript, was made by a bundler and is not
	// checked again. Guests do not receive it.
	Bundled bool
	// Stdin is the program's standard input.
	Stdin []byte
	// Attached connects the standard input and output of a command with the server while it
	// runs: the guest opens a line to [StdioAddress] once the command has started. Stdin is
	// not used then, and stderr is still sent as [Print].
	Attached bool
	// Rows and Columns, if not 0, give an attached command a terminal of that size, which
	// carries its standard error, too. What the line carries to it is typed.
	Rows, Columns int
	// Dir is the folder of a command inside; empty means one of its own.
	Dir string
	// Files are texts that a command finds in its folder, by name.
	Files Map
	// Inputs become variables of the program.
	Inputs Map
	// Tools are the tools that the program mentions. It can call others with
	// call_tool.
	Tools []Tool
	// Withheld maps friendly names that were left out to the reason, which using
	// the name must raise.
	Withheld Map
	// Unknown maps ids and namespaces in the text that no tool has, such as
	// github:creat_issue or tools.gihub, to what to write instead. A program that
	// calls one is refused before anything runs.
	Unknown Map
	// Session names the state that the run continues from. State is that state if
	// the guest does not store it itself.
	Session string
	State   []byte
	// Seed seeds random numbers: runs with the same seed draw the same ones, as far
	// as the guest can do that. If Seed is empty, the guest chooses one.
	Seed []byte
	// Profile is the sandbox profile, dev, standard or hardened, for a guest that
	// is itself the sandbox.
	Profile string
	// Limits are the run's limits, of which the guest enforces those that it can.
	Limits Limits
}

// StdioAddress is the address of the line that carries the standard input and output of an
// attached command. It is no host and port, so that no program can name it.
const StdioAddress = "stdio"

// SignalAddress is the address of the line that carries signals for an attached command, each
// as one byte. The guest opens it before that of the standard input and output, and sends the
// signals to the command's process group. A server may refuse it.
const SignalAddress = "signals"

// Tool is a tool as a program sees it.
type Tool struct {
	ID string
	// Path is the attribute path below tools, for example github create_issue.
	Path []string
	// Globals are further paths of the tool. Each is a friendly name without a
	// collision.
	Globals [][]string
	// Kind is the kind of the tool's source: cli, mcp, http, go …
	Kind string
	// Parameters are in the order of the schema, which positional arguments follow.
	Parameters []Parameter
	// Open reports whether the tool accepts arguments other than Parameters.
	Open bool
	// Doc is the first sentence of the description.
	Doc string
}

// Parameter is one argument of a tool.
type Parameter struct {
	Name     string
	Type     string // JSON Schema type, empty if there are several
	Required bool
	// Values lists the allowed texts; if it is empty, any value is allowed.
	Values []string
}

// ArgumentProblem describes what is wrong with a text as an argument, as far as the tool
// need not be called to know that. It returns "" if nothing is wrong.
func (t *Tool) ArgumentProblem(name, text string) string {
	for _, p := range t.Parameters {
		if p.Name != name || len(p.Values) == 0 || slices.Contains(p.Values, text) {
			continue
		}
		quoted := make([]string, len(p.Values))
		for i, value := range p.Values {
			quoted[i] = strconv.Quote(value)
		}
		return fmt.Sprintf("%s takes %s as %s, and gets %q", t.ID, strings.Join(quoted, " or "), name, truncate(text, 100))
	}
	return ""
}

// Limits bounds one run. Zero means the default, given with each field.
type Limits struct {
	Wall     int64 // milliseconds, 30 000
	CPU      int64 // milliseconds, no limit of its own
	Memory   int64 // bytes, 256 MiB
	Output   int64 // bytes of stdout and stderr, 10 MiB
	Calls    int   // tool calls, 100
	Parallel int   // tool calls at once, 10
	Bytes    int64 // bytes of frames from the guest in all, 64 MiB
}

// The defaults of [Limits].
const (
	DefaultWall     = 30_000
	DefaultMemory   = 256 << 20
	DefaultOutput   = 10 << 20
	DefaultCalls    = toolroom.DefaultMaxCalls
	DefaultParallel = 10
	DefaultBytes    = toolroom.DefaultMaxBytes
)

// WithDefaults returns l with its zero fields set to the defaults.
func (l Limits) WithDefaults() Limits {
	l.Wall = cmp.Or(l.Wall, DefaultWall)
	l.Memory = cmp.Or(l.Memory, DefaultMemory)
	l.Output = cmp.Or(l.Output, DefaultOutput)
	l.Calls = cmp.Or(l.Calls, DefaultCalls)
	l.Parallel = cmp.Or(l.Parallel, DefaultParallel)
	l.Bytes = cmp.Or(l.Bytes, DefaultBytes)
	return l
}

// Outcome is how a run ended, as the guest reports it.
type Outcome struct {
	// Value is the value that the program returned.
	Value Value
	// Failure is why the program failed, nil if it succeeded.
	Failure *Failure
	// State is the session's state after the run, if the guest returns it.
	State []byte
	// Exit is the exit code of a command.
	Exit int
	// CPU, in milliseconds, and Memory, in bytes, are the guest's own measurements;
	// 0 means not known.
	CPU, Memory int64
	// Calls counts requests and Received counts bytes. The server counts both.
	Calls    int
	Received int64
}

// FailureKind classifies a failure by its origin.
type FailureKind string

// The kinds of failure.
const (
	FailProgram     FailureKind = "program"     // the author's code raised an error
	FailSyntax      FailureKind = "syntax"      // the text is not a valid program
	FailCheck       FailureKind = "check"       // refused before it ran, with what to write instead
	FailValue       FailureKind = "value"       // the returned value cannot leave the program
	FailLimit       FailureKind = "limit"       // a limit that the guest enforces
	FailUnsupported FailureKind = "unsupported" // this engine cannot run it; nothing has been done
	FailCancelled   FailureKind = "cancelled"   // the program ended because the server cancelled it
)

// Failure describes why a program failed, in terms of the author's text.
type Failure struct {
	Kind FailureKind
	// Type is the exception's class in the language, for example ValueError.
	Type    string
	Message string
	// File, Line and Column are the position in the author's code. Lines and
	// columns count from 1; 0 means not known.
	File         string
	Line, Column int
	// Trace is the traceback of the author's code only.
	Trace string
	// Limit names the limit of a [FailLimit]: memory, cpu, wall, output, depth.
	Limit string
	// Tool is the error of the tool call that the program did not catch.
	Tool *toolroom.Error
}

func (f *Failure) Error() string {
	if f.Type == "" {
		return f.Message
	}
	return f.Type + ": " + f.Message
}

package bridge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// Program is what a guest is asked to run: a program in a language, a command
// with arguments, or a WebAssembly module.
type Program struct {
	// Language is python, javascript, typescript, shell, command or wasm.
	Language string
	// Name is how tracebacks call the program, for example main.py.
	Name string
	// Source is the text of the program; Module the bytes of a wasm module.
	Source string
	Module []byte
	// Command is the command with its arguments, for language command; for shell
	// and wasm the arguments alone.
	Command []string
	// Env are further environment variables, KEY=VALUE, of the program.
	Env []string
	// Stdin is what the program may read.
	Stdin []byte
	// Inputs are given as variables.
	Inputs Map
	// Tools are those that the program mentions; others can still be called
	// through call_tool.
	Tools []Tool
	// Withheld are friendly names that were left out, with the reason that
	// their use must raise.
	Withheld Map
	// Unknown are ids and namespaces in the text that no tool has, such as
	// github:creat_issue or tools.gihub, with what to write instead: a call of
	// one is refused before anything runs.
	Unknown Map
	// Session names the state that the run goes on from; State is that state
	// where the guest keeps none itself.
	Session string
	State   []byte
	// Seed is what random numbers begin with: a run with the same seed draws the
	// same ones, as far as the guest can do that. Empty begins with any.
	Seed []byte
	// Awake lets the guest stay awake for a moment where it expects bytes: the host
	// has processors to spare.
	Awake bool
	// Profile is that of the sandbox: dev, standard or hardened, for a guest that
	// is the sandbox itself.
	Profile string
	// Limits are told to the guest, which holds what it can.
	Limits Limits
}

// Tool is a tool as a program sees it.
type Tool struct {
	ID string
	// Path is the attribute path below tools, for example github create_issue.
	Path []string
	// Globals are further paths by which the tool is known, each a friendly
	// name without collision.
	Globals [][]string
	// Kind is the kind of the tool's source: cli, mcp, http, go …
	Kind string
	// Parameters in the order of the schema; positional arguments follow it.
	Parameters []Parameter
	// Open says that other arguments than Parameters are accepted.
	Open bool
	// Doc is the first sentence of the description.
	Doc string
}

// Parameter is one argument of a tool.
type Parameter struct {
	Name     string
	Type     string // JSON Schema type, empty if there are several
	Required bool
	// Values are the texts that it may be, where those are all; empty is any.
	Values []string
}

// Misfit tells what is wrong with a text as an argument, where that is known
// without the tool; empty if nothing.
func (t *Tool) Misfit(name, text string) string {
	for _, p := range t.Parameters {
		if p.Name != name || len(p.Values) == 0 || slices.Contains(p.Values, text) {
			continue
		}
		quoted := make([]string, len(p.Values))
		for i, value := range p.Values {
			quoted[i] = strconv.Quote(value)
		}
		return fmt.Sprintf("%s takes %s as %s, and gets %q", t.ID, strings.Join(quoted, " or "), name, cut(text, 100))
	}
	return ""
}

// Limits of one run. Zero means the default, given with each.
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

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	orDefault(&l.Wall, DefaultWall)
	orDefault(&l.Memory, DefaultMemory)
	orDefault(&l.Output, DefaultOutput)
	orDefault(&l.Calls, DefaultCalls)
	orDefault(&l.Parallel, DefaultParallel)
	orDefault(&l.Bytes, DefaultBytes)
	return l
}

func orDefault[T int | int64](n *T, d T) {
	if *n == 0 {
		*n = d
	}
}

// Outcome is how a run ended, as the guest tells it.
type Outcome struct {
	// Value is what the program gave back.
	Value Value
	// Failure says why the program failed; nil means that it did not.
	Failure *Failure
	// State is the session's state after the run, where the guest hands it out.
	State []byte
	// Exit is the exit code of a command.
	Exit int
	// CPU and Memory are what the guest measured of itself: milliseconds and
	// bytes, 0 if it does not know.
	CPU, Memory int64
	// Calls and Received are counted by the host: questions asked, and bytes.
	Calls    int
	Received int64
}

// FailureKind says whose fault a failure is.
type FailureKind string

// The kinds of failure.
const (
	FailProgram     FailureKind = "program"     // the author's code raised an error
	FailSyntax      FailureKind = "syntax"      // the text is no program
	FailCheck       FailureKind = "check"       // refused before it ran, with what to write instead
	FailValue       FailureKind = "value"       // the value given back cannot leave the program
	FailLimit       FailureKind = "limit"       // a limit that the guest holds
	FailUnsupported FailureKind = "unsupported" // this engine cannot run it; nothing has been done
	FailCancelled   FailureKind = "cancelled"   // the program ended because the host asked
)

// Failure is why a program failed, in terms of the author's text.
type Failure struct {
	Kind FailureKind
	// Type is the exception's class in the language, for example ValueError.
	Type    string
	Message string
	// File, Line and Column are the place in the author's code; lines and
	// columns count from 1, 0 is unknown.
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

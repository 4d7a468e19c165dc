package toolroom

import (
	"encoding/json"
	"time"
)

// Tool describes something callable. Registering a Tool copies it; treat one
// that came out of Toolroom as read-only.
type Tool struct {
	ID ID `json:"id"`
	// Title is a name for people.
	Title string `json:"title,omitempty"`
	// Description tells models what the tool does; its first sentence stands in
	// lists.
	Description string `json:"description,omitempty"`

	// InputSchema is the JSON Schema of the arguments, an object. Empty means
	// that any object is accepted.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// OutputSchema is the JSON Schema of the value, when the tool promises one.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`

	Hints     Hints     `json:"hints,omitzero"`
	Guarantee Guarantee `json:"guarantee,omitempty"`
	// Effects are what a call would do, as the author or the operator declares.
	// None leaves it to what is known of the source, the hints and the names of
	// arguments.
	Effects []Effect `json:"effects,omitempty"`

	Tags []string `json:"tags,omitempty"`
	// Aliases are other names by which the tool is found and called.
	Aliases []string `json:"aliases,omitempty"`
	// Notes are what only the full description has.
	Notes    string    `json:"notes,omitempty"`
	Examples []Example `json:"examples,omitempty"`

	// Hidden tools can be called but are left out of lists and search.
	Hidden bool `json:"hidden,omitempty"`

	// Plain asks surfaces for models to show the tool under its bare name, as
	// long as no other tool has that name.
	Plain bool `json:"plain,omitempty"`

	// Source says what kind of place the tool comes from.
	Source SourceKind `json:"source"`

	// Task says whether a call may be, or has to be, a task that its client asks
	// for the result of later, where clients know tasks. Empty is never.
	Task TaskSupport `json:"task,omitempty"`
	// AsksFirst says that a call which becomes a task asks its questions before
	// it works: they come in the answer to the call, before there is a task.
	AsksFirst bool `json:"asks_first,omitempty"`

	// Timeout is the ceiling of a call's run time; zero leaves the runner's
	// ceiling. A caller may ask for less, never for more.
	Timeout time.Duration `json:"timeout,omitempty"`
	// DefaultTimeout is the run time of a call that asks for none; zero leaves
	// the runner's default.
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
	// Concurrency is how many calls may run at once; zero is unlimited.
	Concurrency int `json:"concurrency,omitempty"`
	// Sensitive lists JSON pointers into the arguments whose values are never
	// recorded.
	Sensitive []string `json:"sensitive,omitempty"`

	// Raw is the definition as its source sent it (for MCP the tool object),
	// byte for byte, for surfaces that forward what Toolroom does not model.
	Raw json.RawMessage `json:"-"`
}

// TaskSupport says how a tool's calls become tasks.
type TaskSupport string

// How calls become tasks, in the words of MCP.
const (
	TaskOptional TaskSupport = "optional"
	TaskRequired TaskSupport = "required"
)

// Example is one way to call a tool.
type Example struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Arguments is one JSON object, and ResultHint what comes of it, in words.
	Arguments  json.RawMessage `json:"arguments"`
	ResultHint string          `json:"result_hint,omitempty"`
}

// SourceKind says where a tool comes from.
type SourceKind string

// The kinds of source.
const (
	SourceGo         SourceKind = "go"
	SourcePython     SourceKind = "python"
	SourceJavaScript SourceKind = "javascript"
	SourceWASM       SourceKind = "wasm"
	SourceHTTP       SourceKind = "http"
	SourceOpenAPI    SourceKind = "openapi"
	SourceMCP        SourceKind = "mcp"
	SourceCLI        SourceKind = "cli"
	SourceBuiltin    SourceKind = "builtin"
)

// Hints say what a tool does to the world, as far as its author tells. A nil
// field is unknown. The words and defaults are those of MCP tool annotations.
type Hints struct {
	ReadOnly    *bool `json:"read_only,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"open_world,omitempty"`
}

// IsReadOnly reports whether the tool says that it changes nothing (default no).
func (h Hints) IsReadOnly() bool { return h.ReadOnly != nil && *h.ReadOnly }

// IsDestructive reports whether the tool may destroy something (default yes,
// unless it is read-only).
func (h Hints) IsDestructive() bool {
	if h.Destructive != nil {
		return *h.Destructive
	}
	return !h.IsReadOnly()
}

// IsIdempotent reports whether repeating a call with the same arguments changes
// nothing more (default no).
func (h Hints) IsIdempotent() bool { return h.Idempotent != nil && *h.Idempotent }

// IsOpenWorld reports whether the tool reaches beyond this system (default yes).
func (h Hints) IsOpenWorld() bool { return h.OpenWorld == nil || *h.OpenWorld }

// Guarantee says when a call may be repeated.
type Guarantee string

// The guarantees.
const (
	// GuaranteeSafe: repeat at will.
	GuaranteeSafe Guarantee = "safe"
	// GuaranteeKeyed: repeat with the same idempotency key.
	GuaranteeKeyed Guarantee = "keyed"
	// GuaranteeNever: a repeat may act twice.
	GuaranteeNever Guarantee = "never"
)

// RepeatGuarantee is the tool's guarantee, derived from its hints when it does
// not state one.
func (t *Tool) RepeatGuarantee() Guarantee {
	switch {
	case t.Guarantee != "":
		return t.Guarantee
	case t.Hints.IsReadOnly(), t.Hints.IsIdempotent():
		return GuaranteeSafe
	default:
		return GuaranteeNever
	}
}

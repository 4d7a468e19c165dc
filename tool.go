package toolroom

import (
	"encoding/json"
	"time"
)

// Tool describes a callable tool. Registering a Tool copies it. Treat a Tool that Toolroom
// returns as read-only.
type Tool struct {
	ID ID `json:"id"`
	// Title is a name for people.
	Title string `json:"title,omitempty"`
	// Description tells models what the tool does. Lists show its first sentence.
	Description string `json:"description,omitempty"`

	// InputSchema is the JSON Schema of the arguments, an object. Empty accepts any object.
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// OutputSchema is the JSON Schema of the value; empty if unknown.
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`

	// OutputCheck sets what happens to a value that does not fit OutputSchema. Empty means
	// strict for functions and built-in tools, and warn for tools that are defined elsewhere.
	OutputCheck OutputCheck `json:"output_check,omitempty"`

	Hints     Hints     `json:"hints,omitzero"`
	Guarantee Guarantee `json:"guarantee,omitempty"`
	// Effects are the declared effects of a call, by the author or the operator. Without a
	// declaration they are predicted from the source, the hints and the names of arguments.
	Effects []Effect `json:"effects,omitempty"`

	Tags []string `json:"tags,omitempty"`
	// Aliases are alternative names of the tool for search and calls.
	Aliases []string `json:"aliases,omitempty"`
	// Keywords are words, phrases and questions (of four words or more) with which users ask for
	// the tool, and which its description, written for models, does not have. Only search sees
	// them.
	Keywords []string `json:"-"`
	// Notes appear only in the full description.
	Notes    string    `json:"notes,omitempty"`
	Examples []Example `json:"examples,omitempty"`

	// Hidden tools can be called, but lists and search omit them.
	Hidden bool `json:"hidden,omitempty"`

	// Plain asks surfaces for models to show the tool under its bare name, unless another
	// tool has the same name.
	Plain bool `json:"plain,omitempty"`

	// Source is the kind of source that the tool comes from.
	Source SourceKind `json:"source"`

	// Task reports whether a call can or must become a task, whose result its client
	// requests later, if the client supports tasks. Empty means never.
	Task TaskSupport `json:"task,omitempty"`
	// AsksFirst means that a call that becomes a task asks its questions before it starts:
	// they are in the response to the call, before the task exists.
	AsksFirst bool `json:"asks_first,omitempty"`

	// Timeout is the maximum run time of a call; zero means the runner's maximum. A caller
	// may ask for less, never for more.
	Timeout time.Duration `json:"timeout,omitempty"`
	// DefaultTimeout is the run time of a call that asks for none; zero means the runner's
	// default.
	DefaultTimeout time.Duration `json:"default_timeout,omitempty"`
	// Concurrency is the number of calls that may run at once; zero means unlimited.
	Concurrency int `json:"concurrency,omitempty"`
	// Sensitive lists JSON pointers to arguments whose values are never recorded.
	Sensitive []string `json:"sensitive,omitempty"`

	// Confirm, if it is not empty, is why a person must approve each call, even if policy
	// allows it. No permission that was given in advance counts.
	Confirm string `json:"confirm,omitempty"`

	// Release identifies the released version that the tool is; nil if its source has no
	// versions.
	Release *Release `json:"release,omitempty"`

	// Raw is the definition as its source sent it (for MCP the tool object), byte for byte,
	// for surfaces that forward fields that Tool does not have.
	Raw json.RawMessage `json:"-"`
}

// OutputCheck is what happens to a value that does not fit its tool's output schema.
type OutputCheck string

// The values of OutputCheck.
const (
	// OutputStrict fails the call, although the tool has run.
	OutputStrict OutputCheck = "strict"
	// OutputWarn returns the value with a warning.
	OutputWarn OutputCheck = "warn"
	// OutputOff returns the value unchecked.
	OutputOff OutputCheck = "off"
)

// ChecksOutput returns how the tool's values are checked. If the tool does not say, it
// depends on the kind of its source.
func (t *Tool) ChecksOutput() OutputCheck {
	if t.OutputCheck != "" {
		return t.OutputCheck
	}
	switch t.Source {
	case SourceHTTP, SourceOpenAPI, SourceGraphQL, SourceMCP, SourceCLI:
		return OutputWarn
	default:
		return OutputStrict
	}
}

// Release identifies one immutable version of a tool.
type Release struct {
	// Version counts the versions of the tool from 1. Digest is the SHA-256, in hex, of
	// the version: its text, schemas, dependencies, limits and configuration.
	Version int    `json:"version"`
	Digest  string `json:"digest"`
	// Lock and Layer are the digests of the locked dependencies and of their files; empty
	// if it has none.
	Lock  string `json:"lock,omitempty"`
	Layer string `json:"layer,omitempty"`
	// Built says which dependencies were built here, and from what, for example
	// "pypi:docopt 0.6.2 from sha256:…".
	Built []string `json:"built,omitempty"`
}

// TaskSupport is how a tool's calls become tasks.
type TaskSupport string

// The values of TaskSupport, named as in MCP.
const (
	TaskOptional TaskSupport = "optional"
	TaskRequired TaskSupport = "required"
)

// Example is a sample call of a tool.
type Example struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// Arguments is a JSON object, and ResultHint describes the result in words.
	Arguments  json.RawMessage `json:"arguments"`
	ResultHint string          `json:"result_hint,omitempty"`
}

// SourceKind is the kind of source that a tool comes from.
type SourceKind string

// The source kinds.
const (
	SourceGo         SourceKind = "go"
	SourcePython     SourceKind = "python"
	SourceJavaScript SourceKind = "javascript"
	SourceWASM       SourceKind = "wasm"
	SourceScript     SourceKind = "script"
	SourceHTTP       SourceKind = "http"
	SourceOpenAPI    SourceKind = "openapi"
	SourceGraphQL    SourceKind = "graphql"
	SourceMCP        SourceKind = "mcp"
	SourceCLI        SourceKind = "cli"
	SourceBuiltin    SourceKind = "builtin"
)

// Hints are a tool author's claims about what the tool does. A nil field is unknown. Names
// and defaults are those of MCP tool annotations.
type Hints struct {
	ReadOnly    *bool `json:"read_only,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"open_world,omitempty"`
}

// IsReadOnly reports whether the tool claims to change nothing (default no).
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

// IsOpenWorld reports whether the tool interacts with other systems (default yes).
func (h Hints) IsOpenWorld() bool { return h.OpenWorld == nil || *h.OpenWorld }

// Guarantee is how often a call may run.
type Guarantee string

// The guarantees.
const (
	// GuaranteeSafe means that a call can be repeated at will.
	GuaranteeSafe Guarantee = "safe"
	// GuaranteeKeyed means that a call can be repeated with the same idempotency key.
	GuaranteeKeyed Guarantee = "keyed"
	// GuaranteeNever means that a repeated call may act twice.
	GuaranteeNever Guarantee = "never"
)

// RepeatGuarantee returns the tool's guarantee. If the tool states none, it is derived from
// the hints.
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

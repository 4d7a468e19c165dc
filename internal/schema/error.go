package schema

import "strings"

// A Kind groups the reasons for which a schema or a check is given up.
type Kind string

// Kinds of [Error].
const (
	// Syntax: the text is not strict JSON, or not an object or boolean.
	Syntax Kind = "syntax"
	// Dialect: $schema names a dialect that is not supported.
	Dialect Kind = "dialect"
	// Invalid: the text is JSON but breaks the rules of its dialect.
	Invalid Kind = "invalid"
	// Reference: a $ref leads outside the schema, to nothing, or round in a circle.
	Reference Kind = "reference"
	// Pattern: a regular expression is malformed or too large.
	Pattern Kind = "pattern"
	// TooLarge: a schema, or a check of a document, goes beyond [Limits].
	TooLarge Kind = "too_large"
	// Internal: the validator failed; this is a bug of ours.
	Internal Kind = "internal"
)

// An Error says why a schema is refused, or why a document could not be
// checked. A document that was checked and found wrong is a [Failure] instead.
type Error struct {
	Kind Kind
	// Pointer is the RFC 6901 pointer to the place in the schema, empty if the
	// schema as a whole is meant.
	Pointer string
	// Reason is what is wrong, Hint what to do about it; Hint may be empty.
	Reason, Hint string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("schema")
	if e.Pointer != "" {
		b.WriteString(" at " + shorten(e.Pointer, 120))
	}
	b.WriteString(": " + e.Reason)
	if e.Hint != "" {
		b.WriteString(": " + e.Hint)
	}
	return b.String()
}

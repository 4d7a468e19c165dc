package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// compileError turns what the compiler reports about a schema into an Error.
func (c *checker) compileError(err error, tree any) *Error {
	var own *Error
	var outside *jsonschema.LoadURLError
	var pattern *jsonschema.InvalidRegexError
	var invalid *jsonschema.SchemaValidationError
	var nothing *jsonschema.JSONPointerNotFoundError
	var anchor *jsonschema.AnchorNotFoundError
	var dialect *jsonschema.UnsupportedDraftError
	var badID *jsonschema.ParseIDError
	var sameID *jsonschema.DuplicateIDError
	var sameAnchor *jsonschema.DuplicateAnchorError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &invalid):
		return c.explainInvalid(invalid, tree)
	case errors.As(err, &pattern):
		return patternError(pointer(pattern.URL), pattern.Regex, pattern.Err)
	case errors.As(err, &outside):
		return &Error{
			Kind: Reference, Reason: "reference to " + quote(outside.URL) + ", which is outside the schema and not fetched",
			Hint: "put the definition under $defs and refer to it as #/$defs/NAME",
		}
	case errors.As(err, &nothing):
		return &Error{
			Kind: Reference, Reason: "reference to " + quote("#"+pointer(nothing.URL)) + ", which is not there",
			Hint: "define it, or correct the reference",
		}
	case errors.As(err, &anchor):
		_, name, _ := strings.Cut(anchor.Reference, "#")
		return &Error{
			Kind: Reference, Reason: "reference to the anchor " + quote(name) + ", which is not there",
			Hint: "define it, or correct the reference",
		}
	case errors.As(err, &dialect):
		return &Error{Kind: Dialect, Reason: dialect.Error()}
	case errors.As(err, &badID):
		return &Error{Kind: Reference, Pointer: pointer(badID.URL), Reason: "the id is not a URI reference", Hint: "correct it"}
	case errors.As(err, &sameID):
		return namedTwice("id", sameID.Ptr1, sameID.Ptr2)
	case errors.As(err, &sameAnchor):
		return namedTwice("anchor", sameAnchor.Ptr1, sameAnchor.Ptr2)
	default:
		return &Error{Kind: Invalid, Reason: strings.ReplaceAll(err.Error(), schemaURL, "")}
	}
}

// namedTwice names the two places in a fixed order; the compiler walks maps.
func namedTwice(name, a, b string) *Error {
	return &Error{
		Kind: Reference, Pointer: max(a, b), Reason: fmt.Sprintf("has the same %s as %s", name, display(min(a, b))),
		Hint: "rename one of them",
	}
}

// explainInvalid explains why a schema does not fit its meta-schema.
func (c *checker) explainInvalid(err *jsonschema.SchemaValidationError, tree any) *Error {
	var report *jsonschema.ValidationError
	if !errors.As(err.Err, &report) {
		return &Error{Kind: Invalid, Reason: err.Err.Error()}
	}
	leaves := appendLeaves(nil, report, tree)
	for _, l := range leaves {
		if format, ok := l.cause.(*kind.Format); ok && format.Want == "regex" {
			text, _ := l.value.(string)
			path := l.path
			if l.nameAtFault {
				path = patternProperty(tree, text)
			}
			return patternError(pointerTo(path), text, format.Err)
		}
	}
	failure := c.explain(leaves)
	first := failure.Problems[0]
	failure.Problems[0].Message = fmt.Sprintf("expected %s, got %s", first.Expected, first.Got)
	return &Error{Kind: Invalid, Pointer: first.Pointer, Reason: "not a valid schema: " + failure.Error()}
}

func patternError(pointer, text string, reason error) *Error {
	return &Error{
		Kind: Pattern, Pointer: pointer, Reason: "pattern " + quote(text) + " cannot be used: " + reason.Error(),
		Hint: "correct or simplify the regular expression",
	}
}

// patternProperty finds the pattern among the patternProperties of a schema; the
// validator does not say reliably where the name of a member stands.
func patternProperty(schema any, pattern string) []string {
	switch schema := schema.(type) {
	case map[string]any:
		for _, keyword := range slices.Sorted(maps.Keys(schema)) {
			if patterns, ok := schema[keyword].(map[string]any); ok && keyword == "patternProperties" {
				if _, found := patterns[pattern]; found {
					return []string{keyword, pattern}
				}
			}
			if path := patternProperty(schema[keyword], pattern); path != nil {
				return append([]string{keyword}, path...)
			}
		}
	case []any:
		for i, item := range schema {
			if path := patternProperty(item, pattern); path != nil {
				return append([]string{strconv.Itoa(i)}, path...)
			}
		}
	}
	return nil
}

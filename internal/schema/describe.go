package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// describeValue says in a few words what a value is.
func describeValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprintf("boolean %t", v)
	case string:
		return "string " + quote(v)
	case map[string]any:
		return "object"
	case []any:
		if len(v) == 1 {
			return "array of 1 item"
		}
		return fmt.Sprintf("array of %d items", len(v))
	default:
		return "number " + shorten(fmt.Sprint(v), 40)
	}
}

// literal shows a value of a schema as JSON.
func literal(v any) string {
	text, err := jsonx.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return shorten(string(text), 60)
}

// formatEnum lists the values of an enum, a long one in part.
func formatEnum(values []any) string {
	const listed = 10
	words := make([]string, 0, listed)
	for _, v := range values[:min(len(values), listed)] {
		words = append(words, literal(v))
	}
	switch rest := len(values) - listed; {
	case len(values) == 1:
		return words[0]
	case rest > 0:
		return fmt.Sprintf("one of %s and %d more", strings.Join(words, ", "), rest)
	default:
		return "one of " + strings.Join(words, ", ")
	}
}

// anyValue describes a schema that asks for nothing that can be said in few words.
const anyValue = "any value"

// maxDescribed is how many subschemas a description takes into account. Three alternatives
// of a thousand references each, one below the other, would be a billion.
const maxDescribed = 1_000

// describeSchema says in a few words what s asks for.
func describeSchema(s *jsonschema.Schema) string {
	left := maxDescribed
	return describeSubschema(s, 0, &left)
}

func describeSubschema(s *jsonschema.Schema, depth int, left *int) string {
	if *left--; s == nil || depth > 4 || *left < 0 {
		return anyValue
	}
	switch {
	case s.Const != nil:
		return literal(*s.Const)
	case s.Enum != nil:
		return formatEnum(s.Enum.Values)
	case s.Types == nil && s.Ref != nil:
		return describeSubschema(s.Ref, depth+1, left)
	case s.Types == nil && len(s.AnyOf)+len(s.OneOf) > 0:
		var words []string
		for _, branch := range slices.Concat(s.AnyOf, s.OneOf) {
			if word := describeSubschema(branch, depth+1, left); !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
		return shorten(strings.Join(words, " or "), 120)
	case s.Types == nil:
		return anyValue
	}
	words := s.Types.ToStrings()
	for i, word := range words {
		if items := itemSchema(s); word == "array" && items != nil {
			words[i] = "array of " + describeSubschema(items, depth+1, left)
		}
	}
	text := strings.Join(words, " or ")
	if s.Format != nil && s.Format.Name != "" {
		text += " (" + s.Format.Name + ")"
	}
	return text
}

// itemSchema returns the schema of all elements of an array, nil if there is none.
func itemSchema(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Items2020 != nil {
		return s.Items2020
	}
	items, _ := s.Items.(*jsonschema.Schema)
	return items
}

// quote shows a text of a stranger, shortened.
func quote(text string) string {
	return literal(shorten(text, 40))
}

// shorten cuts a text to at most n code points.
func shorten(text string, n int) string {
	if len(text) <= n || utf8.RuneCountInString(text) <= n {
		return text
	}
	seen := 0
	for i := range text {
		if seen == n {
			return text[:i] + "…"
		}
		seen++
	}
	return text
}

package schema

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"github.com/toolroom/toolroom/internal/nearest"
)

// explain puts leaves into words: those of the first places in the document, so
// that a document wrong in a hundred thousand places costs no more than one in twenty.
func (c *checker) explain(leaves []leaf) *Failure {
	slices.SortStableFunc(leaves, func(a, b leaf) int { return comparePaths(a.path, b.path) })
	explained := leaves[:min(len(leaves), 5*maxProblems)] // some will say the same
	problems := make([]Problem, 0, len(explained))
	for _, l := range explained {
		problems = append(problems, c.problem(l))
	}
	return newFailure(problems, len(leaves)-len(explained))
}

func (c *checker) problem(l leaf) Problem {
	owner := c.byLocation[l.schema] // nil inside a meta-schema
	keyword := pointer(l.schema) + pointerTo(l.cause.KeywordPath())
	switch cause := l.cause.(type) {
	case missing:
		return missingProperty(l, cause, owner, keyword)
	case unknown:
		return unknownProperty(l, cause, owner, keyword)
	}
	expected, got := l.describe(owner)
	p := newProblem(l.path, keyword, expected, got)
	if meant, ok := l.intendedValue(); ok {
		p.Message += fmt.Sprintf(", did you mean %s?", quote(meant))
	}
	return p
}

// describe says what was expected and what came.
func (l leaf) describe(owner *jsonschema.Schema) (expected, got string) {
	got = describeValue(l.value)
	switch k := l.cause.(type) {
	case *kind.Type:
		return strings.Join(k.Want, " or "), got
	case *kind.Const:
		return literal(k.Want), got
	case *kind.Enum:
		return formatEnum(k.Want), got
	case *kind.Format:
		return formatText(k.Want), got
	case *kind.Pattern:
		return "string that matches " + shorten(k.Want, 80), got
	case *kind.MinLength:
		return "at least " + count(k.Want, "character"), lengthOf(l.value)
	case *kind.MaxLength:
		return "at most " + count(k.Want, "character"), lengthOf(l.value)
	case *kind.Minimum:
		return "at least " + decimal(k.Want), got
	case *kind.Maximum:
		return "at most " + decimal(k.Want), got
	case *kind.ExclusiveMinimum:
		return "more than " + decimal(k.Want), got
	case *kind.ExclusiveMaximum:
		return "less than " + decimal(k.Want), got
	case *kind.MultipleOf:
		return "a multiple of " + decimal(k.Want), got
	case *kind.MinItems:
		return "at least " + count(k.Want, "item"), got
	case *kind.MaxItems:
		return "at most " + count(k.Want, "item"), got
	case *kind.AdditionalItems:
		items, _ := l.value.([]any)
		return "at most " + count(len(items)-k.Count, "item"), got
	case *kind.UniqueItems:
		return "items that differ", fmt.Sprintf("items %d and %d alike", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "an item that is " + containsText(owner), got
	case *kind.MinContains:
		return fmt.Sprintf("at least %s of %s", count(k.Want, "item"), containsText(owner)), fmt.Sprintf("%d such", len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("at most %s of %s", count(k.Want, "item"), containsText(owner)), fmt.Sprintf("%d such", len(k.Got))
	case *kind.MinProperties:
		return "at least " + count(k.Want, "member"), fmt.Sprintf("object of %d", k.Got)
	case *kind.MaxProperties:
		return "at most " + count(k.Want, "member"), fmt.Sprintf("object of %d", k.Got)
	case *kind.FalseSchema:
		return "nothing", got
	case *kind.Not:
		return "a value that is not " + notContainsText(owner), got
	case *kind.OneOf:
		return "a value that fits one alternative only", fmt.Sprintf("one that fits alternatives %d and %d", k.Subschemas[0], k.Subschemas[1])
	case *kind.AnyOf:
		return "a value that fits an alternative", got
	case *kind.InvalidJsonValue:
		return "a JSON value", fmt.Sprintf("Go type %T", k.Value)
	default:
		return "a value that meets " + pointer(l.schema), got
	}
}

func containsText(owner *jsonschema.Schema) string {
	if owner == nil {
		return anyValue
	}
	return describeSchema(owner.Contains)
}

func notContainsText(owner *jsonschema.Schema) string {
	if owner == nil || describeSchema(owner.Not) == anyValue {
		return `excluded by "not"`
	}
	return describeSchema(owner.Not)
}

func missingProperty(l leaf, m missing, owner *jsonschema.Schema, keyword string) Problem {
	p := newProblem(l.path, keyword, describeSchema(propertySchema(owner, m.name)), "nothing")
	why := "missing required property " + quote(m.name)
	if m.with != "" {
		why = fmt.Sprintf("missing property %s, required together with %s", quote(m.name), quote(m.with))
	}
	p.Message = fmt.Sprintf("%s: %s, expected %s", display(p.Pointer), why, p.Expected)
	return p
}

func unknownProperty(l leaf, u unknown, owner *jsonschema.Schema, keyword string) Problem {
	known := propertyNames(owner)
	p := newProblem(l.path, keyword, "no such property", describeValue(l.value))
	p.Message = fmt.Sprintf("%s: unknown property %s", display(p.Pointer), quote(u.name))
	const listed = 10
	if meant, ok := intendedProperty(u.name, l.value, known, owner); ok {
		p.Message += fmt.Sprintf(", did you mean %s?", quote(meant))
	} else if len(known) > 0 {
		p.Message += ", known are " + shorten(strings.Join(known[:min(len(known), listed)], ", "), 200)
		if len(known) > listed {
			p.Message += fmt.Sprintf(" and %d more", len(known)-listed)
		}
	}
	return p
}

// intendedProperty returns the property of s that a misspelt name means. A list or an object is
// meant for a property that takes one: if the nearest does not, for the only one that does. An
// abbreviation of the only required property, such as cmd of command, is not another's misspelling.
func intendedProperty(name string, value any, known []string, s *jsonschema.Schema) (string, bool) {
	if s != nil && len(s.Required) == 1 && len(name) > 2 && isAbbreviation(name, s.Required[0]) && slices.Contains(known, s.Required[0]) {
		return s.Required[0], true
	}
	meant, ok := nearest.Of(name, known)
	kind := typeOfContainer(value)
	if !ok || kind == "" || acceptsType(propertySchema(s, meant), kind) {
		return meant, ok
	}
	fitting := slices.DeleteFunc(slices.Clone(known), func(other string) bool { return !acceptsType(propertySchema(s, other), kind) })
	if meant, ok := nearest.Of(name, fitting); ok {
		return meant, true
	}
	if len(fitting) == 1 {
		return fitting[0], true
	}
	return "", false
}

// isAbbreviation reports whether a short name has the first letter of a longer one, and then others
// of it in their order.
func isAbbreviation(short, long string) bool {
	if short == "" || len(short) >= len(long) || short[0] != long[0] {
		return false
	}
	rest := long
	for i := range len(short) {
		at := strings.IndexByte(rest, short[i])
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// typeOfContainer is the type of a list or an object; of others, which take the type that is
// asked for, it is empty.
func typeOfContainer(value any) string {
	switch value.(type) {
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return ""
	}
}

// acceptsType reports whether a schema names no types, or this one.
func acceptsType(s *jsonschema.Schema, kind string) bool {
	return s == nil || s.Types == nil || s.Types.IsEmpty() || slices.Contains(s.Types.ToStrings(), kind)
}

// intendedValue returns the value of an enum that a string was meant to be.
func (l leaf) intendedValue() (string, bool) {
	text, isText := l.value.(string)
	enum, isEnum := l.cause.(*kind.Enum)
	if !isText || !isEnum {
		return "", false
	}
	var texts []string
	for _, v := range enum.Want {
		if v, ok := v.(string); ok {
			texts = append(texts, v)
		}
	}
	return nearestText(text, texts)
}

// nearestText returns the value that text was most likely meant to be: the one that is spelled
// like it, or else the only one that it abbreviates, as js does javascript.
func nearestText(text string, values []string) (string, bool) {
	if meant, ok := nearest.Of(text, values); ok || len(text) < 2 {
		return meant, ok
	}
	long := slices.DeleteFunc(slices.Clone(values), func(value string) bool { return !isAbbreviation(text, value) })
	if len(long) != 1 {
		return "", false
	}
	return long[0], true
}

// propertySchema finds what s, or a subschema that it applies to the same
// value, says about a property.
func propertySchema(s *jsonschema.Schema, name string) *jsonschema.Schema {
	for _, owner := range inPlaceSchemas(s) {
		if property, ok := owner.Properties[name]; ok {
			return property
		}
	}
	return nil
}

// propertyNames lists the properties that s knows, sorted.
func propertyNames(s *jsonschema.Schema) []string {
	names := map[string]bool{}
	for _, owner := range inPlaceSchemas(s) {
		for name := range owner.Properties {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// inPlaceSchemas returns s and the subschemas that it applies to the same value.
func inPlaceSchemas(s *jsonschema.Schema) []*jsonschema.Schema {
	const most = 100
	var found []*jsonschema.Schema
	var add func(*jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || len(found) == most || slices.Contains(found, s) {
			return
		}
		found = append(found, s)
		for next := range inPlace(s) {
			if next != s.Not {
				add(next)
			}
		}
	}
	add(s)
	return found
}

// decimal writes a number of a schema exactly.
func decimal(r *big.Rat) string {
	if digits, exact := r.FloatPrec(); exact {
		return shorten(r.FloatString(digits), 60)
	}
	return shorten(r.RatString(), 60)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func lengthOf(v any) string {
	text, _ := v.(string)
	return fmt.Sprintf("%s of %d", describeValue(v), utf8.RuneCountInString(text))
}

func formatText(name string) string {
	if example, ok := formatExample(name); ok {
		return fmt.Sprintf("string in the format %s, such as %s", name, quote(example))
	}
	return "string in the format " + name
}

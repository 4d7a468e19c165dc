package schema

import (
	"encoding/json"
	"math/big"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// maxExample is the longest example in bytes; it is meant to be read.
const maxExample = 8 << 10

// Example returns a small valid document: required properties only, with the
// values that the schema itself gives (const, default, examples, enum) or with
// placeholders. It reports false if none could be found.
func (s *Schema) Example() (json.RawMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	example, _, ok := s.checker.repair(newFiller().fill(s.checker.root, ""))
	return example, ok
}

// A filler makes up values. Its bounds keep recursive schemas finite; what
// comes out too small is refused by the checker afterwards.
type filler struct {
	values int                  // that may still be made
	open   []*jsonschema.Schema // those being filled, the root first
}

func newFiller() *filler { return &filler{values: 500} }

// fill makes a value for s. name is that of the property, to show in placeholders.
func (f *filler) fill(s *jsonschema.Schema, name string) any {
	const deepest = 12
	if s == nil || f.values == 0 || len(f.open) == deepest {
		return nil
	}
	f.values--
	parts := f.applicableParts(s)
	f.open = append(f.open, s)
	defer func() { f.open = f.open[:len(f.open)-1] }()
	for _, part := range parts {
		if value, ok := chosenValue(part); ok {
			return clone(value)
		}
	}
	switch likelyType(parts) {
	case "object":
		return f.fillObject(parts)
	case "array":
		return f.fillArray(parts)
	case "string":
		return fillText(parts, name)
	case "integer", "number":
		return fillNumber(parts)
	case "boolean":
		return false
	default:
		return nil
	}
}

// applicableParts returns s with all that applies to the same value and that a value has
// to meet. Of alternatives it takes one.
func (f *filler) applicableParts(s *jsonschema.Schema) []*jsonschema.Schema {
	var found []*jsonschema.Schema
	var add func(*jsonschema.Schema)
	add = func(s *jsonschema.Schema) {
		if s == nil || len(found) > maxChain || slices.Contains(found, s) {
			return
		}
		found = append(found, s)
		add(s.Ref)
		for _, in := range s.AllOf {
			add(in)
		}
		add(f.alternative(s.AnyOf))
		add(f.alternative(s.OneOf))
	}
	add(s)
	return found
}

// alternative picks the first branch that takes more than null and does not go
// round in a circle, else the last.
func (f *filler) alternative(branches []*jsonschema.Schema) *jsonschema.Schema {
	var last *jsonschema.Schema
	for _, branch := range branches {
		last = branch
		onlyNull := branch.Types != nil && branch.Types.String() == "[null]"
		if !onlyNull && !slices.Contains(f.open, branch) && !slices.Contains(f.open, branch.Ref) {
			break
		}
	}
	return last
}

// chosenValue returns a value that the author of the schema chose.
func chosenValue(s *jsonschema.Schema) (any, bool) {
	switch {
	case s.Const != nil:
		return *s.Const, true
	case s.Default != nil && *s.Default != nil:
		return *s.Default, true
	case len(s.Examples) > 0:
		return s.Examples[0], true
	case s.Enum != nil && len(s.Enum.Values) > 0:
		return s.Enum.Values[0], true
	default:
		return nil, false
	}
}

// likelyType picks one of the types that all parts allow.
func likelyType(parts []*jsonschema.Schema) string {
	var allowed []string
	for _, part := range parts {
		if part.Types == nil {
			continue
		}
		types := part.Types.ToStrings()
		if allowed == nil {
			allowed = types
		} else {
			allowed = slices.DeleteFunc(allowed, func(t string) bool { return !slices.Contains(types, t) })
		}
	}
	for _, t := range []string{"object", "array", "string", "integer", "number", "boolean"} {
		if slices.Contains(allowed, t) {
			return t
		}
	}
	for _, part := range parts { // nothing says the type, but keywords hint at it
		switch {
		case allowed != nil:
			return ""
		case len(part.Properties)+len(part.Required) > 0:
			return "object"
		case itemSchema(part) != nil || part.MinItems != nil:
			return "array"
		case part.Pattern != nil || part.MinLength != nil || part.Format != nil && part.Format.Name != "":
			return "string"
		case part.Minimum != nil || part.Maximum != nil || part.MultipleOf != nil:
			return "number"
		}
	}
	return ""
}

func (f *filler) fillObject(parts []*jsonschema.Schema) any {
	object := map[string]any{}
	for _, part := range parts {
		for _, name := range part.Required {
			if _, done := object[name]; !done {
				object[name] = f.fill(propertySchema(parts[0], name), name)
			}
		}
	}
	return object
}

func (f *filler) fillArray(parts []*jsonschema.Schema) any {
	array := []any{}
	for _, part := range parts {
		for part.MinItems != nil && len(array) < *part.MinItems && f.values > 0 {
			array = append(array, f.fill(elementSchema(part, len(array)), ""))
		}
		if part.Contains != nil && len(array) == 0 {
			array = append(array, f.fill(part.Contains, ""))
		}
	}
	return array
}

// elementSchema returns what s says about element i of an array.
func elementSchema(s *jsonschema.Schema, i int) *jsonschema.Schema {
	list := s.PrefixItems
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		list = items
	}
	if i < len(list) {
		return list[i]
	}
	return itemSchema(s)
}

func fillText(parts []*jsonschema.Schema, name string) any {
	text := "text"
	if name != "" {
		text = "<" + name + ">"
	}
	for _, part := range parts {
		if part.Format != nil {
			if example, ok := formatExample(part.Format.Name); ok {
				return example
			}
		}
		if part.Pattern != nil {
			if example, ok := patternExample(part.Pattern.String()); ok {
				return example
			}
		}
	}
	for _, part := range parts {
		if part.MinLength != nil {
			text = pad(text, *part.MinLength)
		}
		if part.MaxLength != nil {
			text = cutRunes(text, *part.MaxLength)
		}
	}
	return text
}

// pad lengthens a text to at least n code points, within reason.
func pad(text string, n int) string {
	if missing := min(n, maxExample) - len([]rune(text)); missing > 0 {
		text += strings.Repeat("x", missing)
	}
	return text
}

func cutRunes(text string, n int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), n)])
}

func fillNumber(parts []*jsonschema.Schema) any {
	value := new(big.Rat)
	for _, part := range parts {
		value = moveIntoBounds(value, part)
	}
	return jsonNumber(value)
}

// moveIntoBounds moves a number by as little as is needed to meet the bounds of s.
func moveIntoBounds(value *big.Rat, s *jsonschema.Schema) *big.Rat {
	one := big.NewRat(1, 1)
	if s.Minimum != nil && value.Cmp(s.Minimum) < 0 {
		value = s.Minimum
	}
	if s.ExclusiveMinimum != nil && value.Cmp(s.ExclusiveMinimum) <= 0 {
		value = new(big.Rat).Add(s.ExclusiveMinimum, one)
	}
	if s.Maximum != nil && value.Cmp(s.Maximum) > 0 {
		value = s.Maximum
	}
	if s.ExclusiveMaximum != nil && value.Cmp(s.ExclusiveMaximum) >= 0 {
		value = new(big.Rat).Sub(s.ExclusiveMaximum, one)
		if s.ExclusiveMinimum != nil && value.Cmp(s.ExclusiveMinimum) <= 0 { // a range narrower than that
			value = new(big.Rat).Add(s.ExclusiveMinimum, s.ExclusiveMaximum)
			value.Quo(value, big.NewRat(2, 1))
		}
	}
	if s.MultipleOf != nil && s.MultipleOf.Sign() > 0 {
		times := new(big.Rat).Quo(value, s.MultipleOf)
		value = new(big.Rat).Mul(roundUp(times), s.MultipleOf)
		if s.Maximum != nil && value.Cmp(s.Maximum) > 0 {
			value.Sub(value, s.MultipleOf)
		}
	}
	if s.Types != nil && s.Types.String() == "[integer]" {
		value = roundUp(value)
	}
	return value
}

func roundUp(r *big.Rat) *big.Rat {
	whole := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return new(big.Rat).SetInt(whole.Div(whole, r.Denom()))
}

func jsonNumber(r *big.Rat) json.Number {
	if digits, exact := r.FloatPrec(); exact {
		return json.Number(r.FloatString(digits))
	}
	return json.Number(r.FloatString(20))
}

// clone copies a tree, so that changing a document leaves the schema alone.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(value))
		for name, member := range value {
			object[name] = clone(member)
		}
		return object
	case []any:
		array := make([]any, len(value))
		for i, item := range value {
			array[i] = clone(item)
		}
		return array
	default:
		return value
	}
}

// encodeExample writes an example, false if it is too long to show.
func encodeExample(document any) (json.RawMessage, bool) {
	text, err := jsonx.Marshal(document)
	return text, err == nil && len(text) <= maxExample
}

// formatExample returns a text in a format, to show and to fill in.
func formatExample(name string) (string, bool) {
	switch name {
	case "date":
		return "2026-01-31", true
	case "time":
		return "12:30:00Z", true
	case "date-time":
		return "2026-01-31T12:30:00Z", true
	case "duration":
		return "PT1H30M", true
	case "email", "idn-email":
		return "name@example.com", true
	case "hostname", "idn-hostname":
		return "example.com", true
	case "ipv4":
		return "192.0.2.1", true
	case "ipv6":
		return "2001:db8::1", true
	case "uri", "iri":
		return "https://example.com/", true
	case "uri-reference", "iri-reference":
		return "/path", true
	case "uri-template":
		return "https://example.com/{id}", true
	case "uuid":
		return "123e4567-e89b-12d3-a456-426614174000", true
	case "json-pointer":
		return "/a/0", true
	case "relative-json-pointer":
		return "1/a", true
	case "regex":
		return "^[a-z]+$", true
	case "semver":
		return "1.2.3", true
	default:
		return "", false
	}
}

// patternExample makes up a text that a regular expression may match. It takes
// the shortest way through and does not look at boundaries, so that the result
// has to be checked.
func patternExample(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || programSize(re) > maxExample {
		return "", false
	}
	var b strings.Builder
	writeMatch(&b, re)
	return b.String(), true
}

func writeMatch(b *strings.Builder, re *syntax.Regexp) {
	times := 1
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(readable(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpAlternate:
		writeMatch(b, re.Sub[0])
		return
	case syntax.OpStar, syntax.OpQuest:
		return
	case syntax.OpRepeat:
		times = re.Min
	}
	for range times {
		for _, sub := range re.Sub {
			writeMatch(b, sub)
		}
	}
}

// readable picks a rune of a class, given as pairs of bounds: a letter or digit
// if there is one.
func readable(class []rune) rune {
	for _, wanted := range "axA1" {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= wanted && wanted <= class[i+1] {
				return wanted
			}
		}
	}
	if len(class) == 0 {
		return 'x'
	}
	return class[0]
}

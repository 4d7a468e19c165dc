package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// newMatcher builds the matcher of a compiled schema, nil if the schema uses
// more than a matcher knows: type, enum, const, the bounds of numbers,
// multipleOf of integers, lengths, pattern, format, properties, required,
// additionalProperties, items and their number; a $ref or an allOf of one that
// stands alone and does not recurse; anyOf and oneOf whose branches differ in type.
func newMatcher(root *jsonschema.Schema) *matcher {
	b := matcherBuilder{built: map[*jsonschema.Schema]*matcher{}, anything: anything()}
	m, ok := b.build(root)
	if !ok {
		return nil
	}
	return m
}

type matcherBuilder struct {
	built    map[*jsonschema.Schema]*matcher // nil while it is being built
	anything *matcher
}

func (b *matcherBuilder) build(s *jsonschema.Schema) (*matcher, bool) {
	if s.Bool != nil {
		if *s.Bool {
			return b.anything, true
		}
		return &matcher{}, true // matches no kind
	}
	if m, seen := b.built[s]; seen {
		return m, m != nil // nil: the schema recurses
	}
	b.built[s] = nil
	m, ok := b.buildCombined(s)
	if ok {
		b.built[s] = m
	}
	return m, ok
}

// buildCombined builds the matcher of a schema that only refers to others, or hands
// over to those that assert.
func (b *matcherBuilder) buildCombined(s *jsonschema.Schema) (*matcher, bool) {
	branches := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	if s.Ref != nil {
		branches = append(branches, s.Ref)
	}
	switch {
	case usesUnsupported(s):
		return nil, false
	case len(branches) == 0:
		return b.buildAssertions(s)
	case hasAssertions(s):
		return nil, false
	case len(branches) == 1:
		return b.build(branches[0])
	case len(s.AnyOf) == len(branches) || len(s.OneOf) == len(branches):
		return b.joinByKind(branches)
	default:
		return nil, false
	}
}

// usesUnsupported reports whether s has a keyword that no matcher knows.
func usesUnsupported(s *jsonschema.Schema) bool {
	return s.RecursiveRef != nil || s.DynamicRef != nil || s.Not != nil || s.If != nil ||
		s.MaxProperties != nil || s.MinProperties != nil || s.PropertyNames != nil || len(s.PatternProperties) > 0 ||
		len(s.Dependencies) > 0 || len(s.DependentRequired) > 0 || len(s.DependentSchemas) > 0 || s.UnevaluatedProperties != nil ||
		s.UniqueItems || s.Contains != nil || s.AdditionalItems != nil || len(s.PrefixItems) > 0 || s.UnevaluatedItems != nil ||
		s.ContentEncoding != nil || s.ContentMediaType != nil || s.ContentSchema != nil || len(s.Extensions) > 0
}

// hasAssertions reports whether s itself has a keyword that asserting deals with.
func hasAssertions(s *jsonschema.Schema) bool {
	return s.Types != nil || s.Enum != nil || s.Const != nil || s.Format != nil ||
		len(s.Required) > 0 || len(s.Properties) > 0 || s.AdditionalProperties != nil ||
		s.MinItems != nil || s.MaxItems != nil || s.Items != nil || s.Items2020 != nil ||
		s.MinLength != nil || s.MaxLength != nil || s.Pattern != nil || s.MultipleOf != nil ||
		s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil
}

// joinByKind joins branches of which each takes kinds of its own.
func (b *matcherBuilder) joinByKind(branches []*jsonschema.Schema) (*matcher, bool) {
	joined := map[jsonx.Kind]*matcher{}
	for _, branch := range branches {
		m, ok := b.build(branch)
		if !ok {
			return nil, false
		}
		for _, kind := range m.acceptedKinds() {
			if joined[kind] != nil {
				return nil, false
			}
			joined[kind] = m
			if m.byKind != nil {
				joined[kind] = m.byKind[kind]
			}
		}
	}
	return &matcher{byKind: joined}, true
}

// acceptedKinds lists the kinds of tokens that m may match.
func (m *matcher) acceptedKinds() []jsonx.Kind {
	var kinds []jsonx.Kind
	for kind, of := range map[jsonx.Kind]bool{
		jsonx.Null: m.kinds.null, jsonx.True: m.kinds.boolean, jsonx.False: m.kinds.boolean,
		jsonx.String: m.kinds.text, jsonx.Number: m.kinds.number || m.kinds.integer,
		jsonx.Object: m.kinds.object, jsonx.Array: m.kinds.array,
	} {
		if of || m.byKind[kind] != nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (b *matcherBuilder) buildAssertions(s *jsonschema.Schema) (*matcher, bool) {
	m := &matcher{kinds: kindsOf(s.Types)}
	for _, add := range []func(*matcher, *jsonschema.Schema) bool{addValues, addText, addNumber, b.addObject, b.addArray} {
		if !add(m, s) {
			return nil, false
		}
	}
	return m, true
}

func kindsOf(types *jsonschema.Types) kindSet {
	if types == nil {
		return allKinds()
	}
	var kinds kindSet
	for _, name := range types.ToStrings() {
		switch name {
		case "null":
			kinds.null = true
		case "boolean":
			kinds.boolean = true
		case "string":
			kinds.text = true
		case "number":
			kinds.number = true
		case "integer":
			kinds.integer = true
		case "object":
			kinds.object = true
		case "array":
			kinds.array = true
		}
	}
	return kinds
}

// anything returns the matcher of the schema true.
func anything() *matcher {
	m := &matcher{kinds: allKinds(), maxItems: math.MaxInt}
	m.additional, m.items = m, m
	return m
}

func allKinds() kindSet { return kindSet{true, true, true, true, true, true, true} }

func addNumber(m *matcher, s *jsonschema.Schema) bool {
	bound := func(r *big.Rat) *number {
		if r == nil {
			return nil
		}
		n := newNumber(r)
		return &n
	}
	rules := numberRules{
		minimum: bound(s.Minimum), maximum: bound(s.Maximum),
		above: bound(s.ExclusiveMinimum), below: bound(s.ExclusiveMaximum),
	}
	if s.MultipleOf != nil {
		rules.multipleOf = newNumber(s.MultipleOf).integer
		if rules.multipleOf == 0 { // a fraction, or beyond 64 bits
			return false
		}
	}
	if rules != (numberRules{}) {
		m.number = &rules
	}
	return true
}

func addText(m *matcher, s *jsonschema.Schema) bool {
	if s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil && s.Format == nil {
		return true
	}
	rules := textRules{maxLength: math.MaxInt}
	if s.MinLength != nil {
		rules.minLength = *s.MinLength
	}
	if s.MaxLength != nil {
		rules.maxLength = *s.MaxLength
	}
	if s.Pattern != nil {
		linear, ok := s.Pattern.(*linearPattern)
		if !ok {
			return false
		}
		rules.pattern, rules.patternSize = linear.Regexp, linear.size
	}
	if s.Format != nil {
		if s.Format.Name == "regex" { // compiles the text, at a cost that only a checker counts
			return false
		}
		rules.format = s.Format.Validate
	}
	m.text = &rules
	return true
}

func addValues(m *matcher, s *jsonschema.Schema) bool {
	var values []any
	switch {
	case s.Enum != nil && s.Const != nil:
		return false
	case s.Enum != nil:
		values = s.Enum.Values
	case s.Const != nil:
		values = []any{*s.Const}
	default:
		return true
	}
	set := &valueSet{}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			set.null = true
		case bool:
			set.yes = set.yes || v
			set.no = set.no || !v
		case string:
			if set.texts == nil {
				set.texts = map[string]bool{}
			}
			set.texts[v] = true
		case json.Number:
			if n, ok := readNumber([]byte(v)); ok && n.isInteger {
				if set.integers == nil {
					set.integers = map[int64]bool{}
				}
				set.integers[n.integer] = true
			}
		}
	}
	m.values = set
	return true
}

func (b *matcherBuilder) addObject(m *matcher, s *jsonschema.Schema) bool {
	if !m.kinds.object {
		return true
	}
	m.additional = b.anything
	switch additional := s.AdditionalProperties.(type) {
	case bool:
		if !additional {
			m.additional = nil
		}
	case *jsonschema.Schema:
		built, ok := b.build(additional)
		if !ok {
			return false
		}
		m.additional = built
	}
	m.properties = make(map[string]property, len(s.Properties))
	for name, declared := range s.Properties {
		value, ok := b.build(declared)
		if !ok {
			return false
		}
		m.properties[name] = property{value: value}
	}
	for _, name := range s.Required {
		p, declared := m.properties[name]
		if !declared {
			p.value = m.additional
		}
		p.required = true
		m.properties[name] = p
	}
	m.required = len(s.Required)
	return true
}

func (b *matcherBuilder) addArray(m *matcher, s *jsonschema.Schema) bool {
	if !m.kinds.array {
		return true
	}
	m.items, m.maxItems = b.anything, math.MaxInt
	if s.MinItems != nil {
		m.minItems = *s.MinItems
	}
	if s.MaxItems != nil {
		m.maxItems = *s.MaxItems
	}
	if _, list := s.Items.([]*jsonschema.Schema); list {
		return false
	}
	if items := itemSchema(s); items != nil {
		built, ok := b.build(items)
		if !ok {
			return false
		}
		m.items = built
	}
	return true
}

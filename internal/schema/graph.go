package schema

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// inPlace yields the subschemas that s applies to the value itself.
func inPlace(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		single := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
		if s.DynamicRef != nil {
			single = append(single, s.DynamicRef.Ref)
		}
		for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
			single = append(single, s.DependentSchemas[name])
		}
		for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
			if dependent, ok := s.Dependencies[name].(*jsonschema.Schema); ok {
				single = append(single, dependent)
			}
		}
		for _, in := range slices.Concat(single, s.AllOf, s.AnyOf, s.OneOf) {
			if in != nil && !yield(in) {
				return
			}
		}
	}
}

// children yields the subschemas that s applies to members, their names and
// elements of the value.
func children(s *jsonschema.Schema) iter.Seq[*jsonschema.Schema] {
	return func(yield func(*jsonschema.Schema) bool) {
		below := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems}
		for _, property := range s.Properties {
			below = append(below, property)
		}
		for _, property := range s.PatternProperties {
			below = append(below, property)
		}
		for _, either := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
			switch either := either.(type) {
			case *jsonschema.Schema:
				below = append(below, either)
			case []*jsonschema.Schema:
				below = append(below, either...)
			}
		}
		for _, child := range slices.Concat(below, s.PrefixItems) {
			if child != nil && !yield(child) {
				return
			}
		}
	}
}

// checkChains refuses a schema whose subschemas lead back to themselves without
// going into the document, which has no meaning, and one with so long a chain
// of them that the validator's recursion could exhaust the stack.
func (c *checker) checkChains() *Error {
	lengths := map[*jsonschema.Schema]int{}
	var length func(s *jsonschema.Schema, above int) (int, *Error)
	length = func(s *jsonschema.Schema, above int) (int, *Error) {
		switch known, seen := lengths[s]; {
		case seen && known == 0:
			return 0, &Error{
				Kind: Reference, Pointer: pointer(s.Location), Reason: "refers to itself without going into the document",
				Hint: "put the reference under properties or items",
			}
		case seen:
			return known, nil
		case above > maxChain:
			return 0, chainError(s)
		}
		lengths[s] = 0 // on the way
		longest := 0
		for _, next := range c.nextInPlace(s) {
			n, failed := length(next, above+1)
			if failed != nil {
				return 0, failed
			}
			longest = max(longest, n)
		}
		lengths[s] = longest + 1
		return longest + 1, nil
	}
	for _, location := range slices.Sorted(maps.Keys(c.byLocation)) {
		s := c.byLocation[location]
		if n, failed := length(s, 0); failed != nil {
			return failed
		} else if n > maxChain {
			return chainError(s)
		}
	}
	return nil
}

func chainError(s *jsonschema.Schema) *Error {
	return tooLarge(pointer(s.Location), fmt.Sprintf("a chain of more than %d references and combinations", maxChain))
}

// nextInPlace returns what may be evaluated at the same value right after s. Where a
// dynamic reference leads depends on the way to it, so all its possible targets count.
func (c *checker) nextInPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	next := slices.Collect(inPlace(s))
	if s.RecursiveRef == nil && s.DynamicRef == nil {
		return next
	}
	for _, target := range c.byLocation {
		recursive := s.RecursiveRef != nil && target.RecursiveAnchor
		dynamic := s.DynamicRef != nil && s.DynamicRef.Anchor != "" && target.DynamicAnchor == s.DynamicRef.Anchor
		if recursive || dynamic {
			next = append(next, target)
		}
	}
	return next
}

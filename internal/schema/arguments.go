package schema

import (
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// CheckArguments returns an error if no JSON object fits the schema: then no
// tool can have it for its arguments, which are an object. It looks at the types
// and values that the schema names, and does not solve it.
func (s *Schema) CheckArguments() error {
	if refusesObjects(s.checker.root, map[*jsonschema.Schema]bool{}) {
		return errors.New(`it takes no JSON object, and arguments are one: write {"type": "object", "properties": {…}}`)
	}
	return nil
}

// refusesObjects reports whether s takes no object. Known are the answers so far: references
// may lead to one subschema in more ways than can be gone.
func refusesObjects(s *jsonschema.Schema, known map[*jsonschema.Schema]bool) (refused bool) {
	if s == nil {
		return false
	}
	if refused, seen := known[s]; seen {
		return refused
	}
	known[s] = false // should it lead back to itself
	defer func() { known[s] = refused }()
	refuses := func(s *jsonschema.Schema) bool { return refusesObjects(s, known) }
	isObject := func(v any) bool {
		_, is := v.(map[string]any)
		return is
	}
	switch {
	case s.Bool != nil && !*s.Bool,
		s.Types != nil && !s.Types.IsEmpty() && !slices.Contains(s.Types.ToStrings(), "object"),
		s.Const != nil && !isObject(*s.Const),
		s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, isObject):
		return true
	}
	return refuses(s.Ref) || slices.ContainsFunc(s.AllOf, refuses) ||
		len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, func(s *jsonschema.Schema) bool { return !refuses(s) }) ||
		len(s.OneOf) > 0 && !slices.ContainsFunc(s.OneOf, func(s *jsonschema.Schema) bool { return !refuses(s) })
}

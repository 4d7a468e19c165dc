package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// maxGrowth is the largest exponent of a number that WriteIntegers writes as digits, which takes
// up to that many more. Larger numbers are left alone: a document full of 1e400 would become
// many times as long. 2^127 has 39 digits.
const maxGrowth = 38

// WriteIntegers returns a valid document with its integers as digits alone. To JSON Schema
// 2.0 and 2e0 are integers, but most languages read them as floating-point numbers. A
// number is left alone if the schema does not require an integer there, or if its exponent is
// beyond 38.
func (s *Schema) WriteIntegers(document json.RawMessage) (json.RawMessage, error) {
	tree, err := jsonx.Decode(document, jsonx.Limits{Bytes: len(document)})
	if err != nil {
		return nil, err
	}
	changed := false
	tree = writeIntegers(s.checker.root, tree, &changed)
	if !changed {
		return document, nil
	}
	return jsonx.Marshal(tree)
}

func writeIntegers(s *jsonschema.Schema, value any, changed *bool) any {
	switch value := value.(type) {
	case json.Number:
		if !strings.ContainsAny(string(value), ".eE") || exponent(value) > maxGrowth || !requiresInteger(s) {
			return value
		}
		if exact, ok := new(big.Rat).SetString(string(value)); ok && exact.IsInt() {
			*changed = true
			return json.Number(exact.Num().String())
		}
	case map[string]any:
		all := inPlaceSchemas(s)
		for name, member := range value {
			value[name] = writeIntegers(memberSchema(all, name), member, changed)
		}
	case []any:
		all := inPlaceSchemas(s)
		for i, element := range value {
			value[i] = writeIntegers(firstElementSchema(all, i), element, changed)
		}
	}
	return value
}

// exponent returns the exponent of a number: 2 of 1.5e2, 0 of 1.5.
func exponent(n json.Number) int {
	i := strings.IndexAny(string(n), "eE")
	if i < 0 {
		return 0
	}
	exponent, err := strconv.Atoi(string(n[i+1:]))
	if err != nil { // it is too large for an int
		return math.MaxInt
	}
	return exponent
}

// requiresInteger reports whether s names the type integer and does not name number.
func requiresInteger(s *jsonschema.Schema) bool {
	integer := false
	for _, owner := range inPlaceSchemas(s) {
		if owner.Types == nil {
			continue
		}
		types := owner.Types.ToStrings()
		if slices.Contains(types, "number") {
			return false
		}
		integer = integer || slices.Contains(types, "integer")
	}
	return integer
}

// memberSchema returns what the first of several schemas that knows a member says about it.
func memberSchema(all []*jsonschema.Schema, name string) *jsonschema.Schema {
	for _, s := range all {
		if property, ok := s.Properties[name]; ok {
			return property
		}
	}
	for _, s := range all {
		if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			return additional
		}
	}
	return nil
}

// firstElementSchema returns what the first of several schemas that describes element i of
// an array says about it.
func firstElementSchema(all []*jsonschema.Schema, i int) *jsonschema.Schema {
	for _, s := range all {
		if element := elementSchema(s, i); element != nil {
			return element
		}
	}
	return nil
}

package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
)

// Definitions that refer to one another describe a value without end, and one that refers
// twice to the next describes 2^n: the definition of Kubernetes' JSONSchemaProps does both.
func TestWhatADefinitionRefersToIsNotFollowedWithoutEnd(t *testing.T) {
	t.Parallel()
	many := func(n int, member func(i int) string) string {
		var list []string
		for i := range n {
			list = append(list, member(i))
		}
		return strings.Join(list, ",")
	}
	to := func(target string) func(int) string {
		return func(i int) string { return fmt.Sprintf(`"member%d": {"$ref": %q}`, i, target) }
	}
	names := many(3000, func(i int) string { return fmt.Sprintf(`"member%d"`, i) })
	for name, schema := range map[string]string{
		"itself": `{"type": "object", "properties": {` + many(100, to("#")) + `}}`,
		"list":   `{"type": "array", "items": {"anyOf": [` + many(300, func(int) string { return `{"$ref": "#"}` }) + `]}}`,
		"doubled": `{"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"$ref": "#/$defs/d0"}}, "$defs": {` + many(60, func(i int) string {
			return fmt.Sprintf(`"d%d": {"description": "a definition of which there are many", "allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i, i+1, i+1)
		}) + `}}`,
		"all needed": `{"type": "object", "required": [` + names + `], "properties": {` + many(3000, to("#")) + `}}`,
	} {
		small := shortenSchema(json.RawMessage(schema))
		if !json.Valid(small) || len(small) >= len(schema) {
			t.Errorf("%s: %d bytes became %d: %.200s", name, len(schema), len(small), small)
		}
		if again := shortenSchema(json.RawMessage(schema)); string(again) != string(small) {
			t.Errorf("%s: another list has another definition", name)
		}
	}
}

// What fits the whole schema fits the small one: a model must not be kept from a call that
// would be accepted.
func TestASmallSchemaAcceptsWhatTheWholeAccepts(t *testing.T) {
	t.Parallel()
	long := `"description": "` + strings.Repeat("long ", 1000) + `"`
	var alternatives []string
	for i := range 1900 {
		alternatives = append(alternatives, fmt.Sprintf(`{"const": %d}`, i))
	}
	for name, c := range map[string]struct{ schema, value string }{
		"items behind others":  {`{"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}, ` + long + `}}}`, `{"a": ["x", 1]}`},
		"no items":             {`{"type": "object", "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}], "items": false, ` + long + `}}}`, `{"a": ["x"]}`},
		"many alternatives":    {`{"anyOf": [` + strings.Join(alternatives, ",") + `]}`, `1899`},
		"no additional member": {`{"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "additionalProperties": false, "$defs": {"a": {"type": "string", ` + long + `}}}`, `{"a": "x"}`},
	} {
		value, err := jsonx.Decode([]byte(c.value), jsonx.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]json.RawMessage{"whole": json.RawMessage(c.schema), "small": shortenSchema(json.RawMessage(c.schema))} {
			compiled, err := schema.Compile(text, schema.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(value); err != nil {
				t.Errorf("%s: the %s schema does not accept %s: %v\n%.300s", name, form, c.value, err, text)
			}
		}
	}
}

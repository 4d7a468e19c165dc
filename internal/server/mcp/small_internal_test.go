package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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
		small := smallSchema(json.RawMessage(schema))
		if !json.Valid(small) || len(small) >= len(schema) {
			t.Errorf("%s: %d bytes became %d: %.200s", name, len(schema), len(small), small)
		}
		if again := smallSchema(json.RawMessage(schema)); string(again) != string(small) {
			t.Errorf("%s: another list has another definition", name)
		}
	}
}

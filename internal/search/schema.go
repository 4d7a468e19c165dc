package search

import (
	"encoding/json"
	"maps"
	"slices"
)

// maxSchemaDepth bounds how far subschemas are followed. Parameters deeper
// than this are no longer what a tool is about.
const maxSchemaDepth = 12

// Keywords of JSON Schema (drafts 4 to 2020-12) that hold subschemas: by name,
// or as one schema or a list. References need not be followed, as definitions
// are read where they stand.
var (
	schemaMaps = []string{"$defs", "definitions", "patternProperties", "dependentSchemas"}
	subschemas = []string{"items", "prefixItems", "additionalProperties", "allOf", "anyOf", "oneOf", "if", "then", "else"}
)

// addSchema adds the names, descriptions and values of parameters. A schema
// that is too large or no JSON adds nothing: judging schemas is not the
// business of a search index.
func (b *bag) addSchema(raw json.RawMessage) {
	if len(raw) == 0 || len(raw) > maxSchema {
		return
	}
	var schema any
	if json.Unmarshal(raw, &schema) != nil {
		return
	}
	b.walkSchema(schema, 0)
}

func (b *bag) walkSchema(v any, depth int) {
	if depth > maxSchemaDepth {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, sub := range v {
			b.walkSchema(sub, depth+1)
		}
	case map[string]any:
		b.addSchemaObject(v, depth)
	}
}

func (b *bag) addSchemaObject(schema map[string]any, depth int) {
	b.addString(parameterProse, schema["description"])
	if values, ok := schema["enum"].([]any); ok {
		for _, value := range values {
			b.addString(enumSection, value)
		}
	}
	b.addString(enumSection, schema["const"])

	properties, _ := schema["properties"].(map[string]any)
	// Sorted, so that the same tool is always cut at the same word.
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		b.add(parameterSection, name)
		b.walkSchema(properties[name], depth+1)
	}
	for _, keyword := range schemaMaps {
		named, _ := schema[keyword].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			b.walkSchema(named[name], depth+1)
		}
	}
	for _, keyword := range subschemas {
		b.walkSchema(schema[keyword], depth+1)
	}
}

func (b *bag) addString(s section, v any) {
	if text, ok := v.(string); ok {
		b.add(s, text)
	}
}

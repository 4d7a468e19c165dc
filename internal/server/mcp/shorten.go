package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Clients put listed definitions into each request to a model, so they contain no more than
// a caller needs. Arguments are validated against the whole schema, which describe_tools
// shows.
const (
	// maxUncutSchema is the size, in bytes, up to which an input schema is listed unchanged.
	// maxCutSchema is the size to which larger ones are reduced, if possible.
	maxUncutSchema, maxCutSchema = 2 << 10, 4 << 10
	// maxToolText and maxMemberText limit descriptions, in bytes.
	maxToolText, maxMemberText = 1000, 160
	// maxCutMembers limits the members of a schema that is too large otherwise.
	maxCutMembers = 60
)

// shortDefinition returns the definition of a tool for lists.
func shortDefinition(e *catalog.Entry, name string, output json.RawMessage) (json.RawMessage, error) {
	small := e.Tool
	small.InputSchema = shortenSchema(small.InputSchema)
	small.Description = catalog.Shorten(small.Description, maxToolText)
	return jsonx.Marshal(definition(&small, name, output, small.Description != e.Tool.Description))
}

// shortenSchema reduces a large schema to what a caller needs. The result accepts everything
// that the whole schema accepts.
func shortenSchema(whole json.RawMessage) json.RawMessage {
	if len(whole) <= maxUncutSchema {
		return whole
	}
	doc, err := jsonx.Decode(whole, jsonx.Limits{})
	root, ok := doc.(map[string]any)
	if err != nil || !ok {
		return whole
	}
	for _, c := range []schemaCutter{{depth: 64}, {depth: 3}, {depth: 2}, {depth: 1}, {depth: 1, bare: true}} {
		c.root, c.left = root, maxCutSchema/minSchema
		cut := c.schema(root, 0)
		if c.left < 0 && !c.bare {
			continue
		}
		text, err := jsonx.Marshal(cut)
		if err == nil && (len(text) <= maxCutSchema || c.bare) {
			return text
		}
	}
	return whole
}

// schemaCutter reduces a schema.
type schemaCutter struct {
	root map[string]any
	// depth is the nesting down to which members are described; deeper ones have only their
	// type.
	depth int
	// bare leaves out descriptions, and members beyond maxCutMembers.
	bare bool
	// left is the number of further schemas that fit. Without it, references in a circle, or
	// many references to the same large schema, would be followed without end.
	left int
}

// minSchema is the least number of bytes that a schema takes in a list: "{},".
const minSchema = 3

// listedKeywords are the keywords that schemaCutter copies unchanged.
var listedKeywords = map[string]bool{
	"type": true, "enum": true, "const": true, "default": true, "format": true, "pattern": true, "required": true,
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"minLength": true, "maxLength": true, "minItems": true, "maxItems": true, "uniqueItems": true, "nullable": true,
}

// maxValue is the length, in bytes, beyond which an enum, a default or a pattern is
// left out.
const maxValue = 1000

// schema reduces one schema. It replaces references by the schemas that they refer to, so
// that no unused definition remains.
func (c *schemaCutter) schema(s any, depth int) any {
	c.left--
	from, ok := s.(map[string]any)
	if !ok {
		return s // true or false
	}
	from = c.resolve(from)
	to := map[string]any{}
	if depth > c.depth || c.left < 0 {
		if t, ok := from["type"]; ok {
			to["type"] = t
		}
		return to
	}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		value := from[name]
		switch {
		case name == "description" && !c.bare:
			if text, ok := value.(string); ok {
				to[name] = catalog.Shorten(text, maxMemberText)
			}
		case name == "properties":
			to[name] = c.members(value, from["required"], depth)
		case name == "items":
			if from["prefixItems"] == nil { // otherwise items describes only the elements after those
				to[name] = c.schema(value, depth+1)
			}
		case name == "additionalProperties":
			if _, ok := value.(bool); ok && !c.bare && from["patternProperties"] == nil {
				to[name] = value
			}
		case name == "anyOf" || name == "oneOf" || name == "allOf":
			list, _ := value.([]any)
			var cuts []any
			for _, one := range list {
				if c.left < 0 {
					break
				}
				cuts = append(cuts, c.schema(one, depth+1))
			}
			if cuts != nil && depth < c.depth {
				to[looserKeyword(name)] = cuts
			}
		case listedKeywords[name]:
			if text, err := jsonx.Marshal(value); err == nil && len(text) <= maxValue {
				to[name] = value
			}
		}
	}
	return to
}

// looserKeyword replaces oneOf by anyOf, because reduced alternatives may no longer exclude
// each other.
func looserKeyword(name string) string {
	if name == "oneOf" {
		return "anyOf"
	}
	return name
}

func (c *schemaCutter) members(value, required any, depth int) map[string]any {
	members, _ := value.(map[string]any)
	to := map[string]any{}
	needed, _ := required.([]any)
	for _, name := range needed {
		if c.left < 0 {
			break
		}
		if name, ok := name.(string); ok && members[name] != nil {
			to[name] = c.schema(members[name], depth+1)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if c.left < 0 || c.bare && len(to) >= maxCutMembers {
			break
		}
		if _, there := to[name]; !there {
			to[name] = c.schema(members[name], depth+1)
		}
	}
	return to
}

// maxRefs limits a chain of references.
const maxRefs = 16

// resolve returns what a schema that is a reference within the document refers to.
func (c *schemaCutter) resolve(s map[string]any) map[string]any {
	for range maxRefs {
		ref, ok := s["$ref"].(string)
		path, local := strings.CutPrefix(ref, "#/")
		if !ok || !local {
			break
		}
		var at any = c.root
		for step := range strings.SplitSeq(path, "/") {
			object, _ := at.(map[string]any)
			at = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		}
		next, ok := at.(map[string]any)
		if !ok {
			break
		}
		s = next
	}
	return s
}

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// shape is what a JSON Schema says of a value as far as typing words needs it:
// which types it may have, which members or items. It is no validator; the
// runner validates every call.
type shape struct {
	// parts are the schema and those that it is made of by $ref, allOf, anyOf
	// and oneOf.
	parts []map[string]any
	root  map[string]any
}

// maxParts bounds what a schema that a stranger wrote can cost.
const maxParts = 200

// shapeOf reads a schema. One that cannot be read has no shape: everything
// is possible.
func shapeOf(schema json.RawMessage) shape {
	doc, err := jsonx.Decode(schema, jsonx.Limits{})
	root, ok := doc.(map[string]any)
	if err != nil || !ok {
		return shape{}
	}
	return newShape(root, root)
}

func newShape(root map[string]any, schema any) shape {
	s := shape{root: root}
	seen := 0
	var gather func(any)
	gather = func(schema any) {
		part, ok := schema.(map[string]any)
		if seen++; !ok || seen > maxParts {
			return
		}
		s.parts = append(s.parts, part)
		if ref, ok := part["$ref"].(string); ok {
			gather(s.local(ref))
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := part[key].([]any)
			for _, member := range list {
				gather(member)
			}
		}
	}
	gather(schema)
	return s
}

// local is what a reference within the document points to.
func (s shape) local(ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	var at any = s.root
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(path, "/") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[unescape.Replace(step)]
	}
	return at
}

// types are the JSON types that the value may have; none means any.
func (s shape) types() []string {
	var types []string
	add := func(t any) {
		if name, ok := t.(string); ok && !slices.Contains(types, name) {
			types = append(types, name)
		}
	}
	for _, part := range s.parts {
		switch t := part["type"].(type) {
		case string:
			add(t)
		case []any:
			for _, name := range t {
				add(name)
			}
		}
	}
	return types
}

func (s shape) may(t string) bool { return slices.Contains(s.types(), t) }

// names are the members that an object may have by name.
func (s shape) names() []string {
	names := map[string]struct{}{}
	for _, part := range s.parts {
		members, _ := part["properties"].(map[string]any)
		for name := range members {
			names[name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// member is the shape of a member by name.
func (s shape) member(name string) (shape, bool) {
	for _, part := range s.parts {
		members, _ := part["properties"].(map[string]any)
		if member, ok := members[name]; ok {
			return newShape(s.root, member), true
		}
	}
	return shape{}, false
}

// open reports whether members are welcome that have no name in the schema.
// Where a schema names some and is silent about others, a name that is not
// there is taken for a slip of the person who types.
func (s shape) open() bool {
	for _, part := range s.parts {
		switch extra := part["additionalProperties"].(type) {
		case bool:
			if extra {
				return true
			}
		case map[string]any:
			return true
		}
		if _, ok := part["patternProperties"]; ok {
			return true
		}
	}
	return len(s.names()) == 0
}

// other is the shape of a member without a name in the schema.
func (s shape) other() shape {
	for _, part := range s.parts {
		if extra, ok := part["additionalProperties"].(map[string]any); ok {
			return newShape(s.root, extra)
		}
	}
	return shape{}
}

// items is the shape of an item of an array.
func (s shape) items() shape {
	for _, part := range s.parts {
		if items, ok := part["items"].(map[string]any); ok {
			return newShape(s.root, items)
		}
	}
	return shape{}
}

func (s shape) description() string {
	for _, part := range s.parts {
		if text, ok := part["description"].(string); ok {
			return text
		}
	}
	return ""
}

// values are the values that it may have, where the schema lists them.
func (s shape) values() []string {
	var values []string
	for _, part := range s.parts {
		list, _ := part["enum"].([]any)
		for _, v := range list {
			values = append(values, fmt.Sprint(v))
		}
		if part["type"] == "boolean" {
			values = append(values, "true", "false")
		}
	}
	return values
}

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// shape is the part of a JSON Schema that parsing words needs: the possible types, members
// and items of a value. It does not validate; the runner validates every call.
type shape struct {
	// parts are the schema and those that it includes by $ref, allOf, anyOf and oneOf.
	parts []map[string]any
	root  map[string]any
}

// maxParts limits the cost of an untrusted schema.
const maxParts = 200

// shapeOf parses a schema. An invalid schema results in a shape that allows everything.
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

// local returns the part of the document to which a reference points, or nil.
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

// types returns the JSON types that the value may have; none means any.
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

func (s shape) allows(t string) bool { return slices.Contains(s.types(), t) }

// names returns the named members of an object.
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

// member returns the shape of a named member.
func (s shape) member(name string) (shape, bool) {
	for _, part := range s.parts {
		members, _ := part["properties"].(map[string]any)
		if member, ok := members[name]; ok {
			return newShape(s.root, member), true
		}
	}
	return shape{}, false
}

// allowsUnknown reports whether an object may have other members than the named ones. If the
// schema names some members and does not mention others, an unknown name counts as a typing
// mistake.
func (s shape) allowsUnknown() bool {
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

// unknownMember returns the shape of a member that the schema does not name.
func (s shape) unknownMember() shape {
	for _, part := range s.parts {
		if extra, ok := part["additionalProperties"].(map[string]any); ok {
			return newShape(s.root, extra)
		}
	}
	return shape{}
}

// items returns the shape of an array's items.
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

// values returns the possible values, if the schema lists them.
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

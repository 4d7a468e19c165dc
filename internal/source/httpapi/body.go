package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// bodyNode is one value of a body template. Exactly one field is set.
type bodyNode struct {
	text   template
	object map[string]bodyNode
	list   []bodyNode
	value  json.RawMessage
}

func parseBody(v any) (bodyNode, error) {
	switch v := v.(type) {
	case string:
		t, err := parseTemplate(v)
		if len(t) == 0 {
			return bodyNode{value: json.RawMessage(`""`)}, err
		}
		return bodyNode{text: t}, err
	case map[string]any:
		object := make(map[string]bodyNode, len(v))
		for name, member := range v {
			node, err := parseBody(member)
			if err != nil {
				return bodyNode{}, fmt.Errorf("%s: %w", name, err)
			}
			object[name] = node
		}
		return bodyNode{object: object}, nil
	case []any:
		list := make([]bodyNode, len(v))
		for i, element := range v {
			node, err := parseBody(element)
			if err != nil {
				return bodyNode{}, fmt.Errorf("[%d]: %w", i, err)
			}
			list[i] = node
		}
		return bodyNode{list: list}, nil
	default:
		value, err := json.Marshal(v)
		return bodyNode{value: value}, err
	}
}

func (n bodyNode) arguments() []string {
	names := n.text.arguments()
	for _, name := range slices.Sorted(maps.Keys(n.object)) {
		names = append(names, n.object[name].arguments()...)
	}
	for _, element := range n.list {
		names = append(names, element.arguments()...)
	}
	return names
}

// fill returns the JSON of n. It reports false for a string whose argument is missing;
// such members and elements are left out.
func (n bodyNode) fill(args httpcall.Arguments, expand func(string) (string, error)) (json.RawMessage, bool, error) {
	switch {
	case n.text != nil:
		return n.fillText(args, expand)
	case n.object != nil:
		members := make(map[string]json.RawMessage, len(n.object))
		for name, member := range n.object {
			value, given, err := member.fill(args, expand)
			if err != nil {
				return nil, false, err
			}
			if given {
				members[name] = value
			}
		}
		value, err := json.Marshal(members)
		return value, true, err
	case n.list != nil:
		elements := make([]json.RawMessage, 0, len(n.list))
		for _, element := range n.list {
			value, given, err := element.fill(args, expand)
			if err != nil {
				return nil, false, err
			}
			if given {
				elements = append(elements, value)
			}
		}
		value, err := json.Marshal(elements)
		return value, true, err
	default:
		return n.value, true, nil
	}
}

func (n bodyNode) fillText(args httpcall.Arguments, expand func(string) (string, error)) (json.RawMessage, bool, error) {
	if len(n.text) == 1 && n.text[0].argument != "" {
		raw, given := args[n.text[0].argument]
		return raw, given, nil
	}
	text, given, err := n.text.fill(args, expand, unchanged)
	if err != nil || !given {
		return nil, false, err
	}
	value, err := json.Marshal(text)
	return value, true, err
}

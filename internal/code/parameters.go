package code

import (
	"encoding/json"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// parameters returns the arguments that an input schema names: required ones first, each
// group in schema order. open reports that others are accepted, too.
func parameters(inputSchema json.RawMessage) (list []bridge.Parameter, open bool) {
	if len(inputSchema) == 0 {
		return nil, true
	}
	var s struct {
		Properties           json.RawMessage `json:"properties"`
		Required             []string        `json:"required"`
		AdditionalProperties json.RawMessage `json:"additionalProperties"`
		// Other keywords that may define arguments.
		PatternProperties json.RawMessage `json:"patternProperties"`
		AllOf             json.RawMessage `json:"allOf"`
		AnyOf             json.RawMessage `json:"anyOf"`
		OneOf             json.RawMessage `json:"oneOf"`
		Ref               string          `json:"$ref"`
	}
	if json.Unmarshal(inputSchema, &s) != nil {
		return nil, true
	}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	var optional []bridge.Parameter
	for _, name := range readProperties(s.Properties) {
		p := bridge.Parameter{Name: name.key, Type: name.kind, Required: required[name.key], Values: name.values}
		if p.Required {
			list = append(list, p)
		} else {
			optional = append(optional, p)
		}
	}
	// An argument that the schema does not name is a mistake even if the schema does not
	// forbid others, unless the schema defines arguments in other ways than properties.
	open = len(list)+len(optional) == 0 || s.PatternProperties != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.Ref != "" ||
		len(s.AdditionalProperties) > 0 && string(s.AdditionalProperties) != "false"
	return append(list, optional...), open
}

type property struct {
	key, kind string
	values    []string
}

// maxValues is the maximum number of an argument's values that the guest receives.
const maxValues = 100

// readProperties returns the members of properties in order.
func readProperties(properties json.RawMessage) []property {
	if len(properties) == 0 {
		return nil
	}
	var list []property
	r := jsonx.NewReader(properties, jsonx.Limits{Bytes: len(properties) + 1})
	defer r.Abandon()
	if r.Peek() != jsonx.Object {
		return nil
	}
	for r.Enter(); r.More(); {
		list = append(list, property{key: string(r.Text())})
		r.Skip()
	}
	var types map[string]struct {
		Type any   `json:"type"`
		Enum []any `json:"enum"`
	}
	if json.Unmarshal(properties, &types) == nil {
		for i := range list {
			list[i].kind, _ = types[list[i].key].Type.(string)
			list[i].values = enumTexts(types[list[i].key].Enum)
		}
	}
	return list
}

// enumTexts returns the strings among the possible values of an argument, or none if there are
// too many.
func enumTexts(enum []any) (list []string) {
	for _, value := range enum {
		if text, ok := value.(string); ok {
			list = append(list, text)
		}
	}
	if len(list) > maxValues {
		return nil
	}
	return list
}

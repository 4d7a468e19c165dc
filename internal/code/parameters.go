package code

import (
	"encoding/json"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// parameters are the arguments that an input schema names, required ones first,
// each group in the order of the schema; open says that it takes others too.
func parameters(inputSchema json.RawMessage) (list []bridge.Parameter, open bool) {
	if len(inputSchema) == 0 {
		return nil, true
	}
	var s struct {
		Properties           json.RawMessage `json:"properties"`
		Required             []string        `json:"required"`
		AdditionalProperties json.RawMessage `json:"additionalProperties"`
		// What else may say which arguments there are.
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
	for _, name := range keys(s.Properties) {
		p := bridge.Parameter{Name: name.key, Type: name.kind, Required: required[name.key], Values: name.values}
		if p.Required {
			list = append(list, p)
		} else {
			optional = append(optional, p)
		}
	}
	// Nobody can have meant an argument that the schema does not name, even
	// where it does not forbid others; unless it says more than properties do.
	open = len(list)+len(optional) == 0 || s.PatternProperties != nil || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil || s.Ref != "" ||
		len(s.AdditionalProperties) > 0 && string(s.AdditionalProperties) != "false"
	return append(list, optional...), open
}

type property struct {
	key, kind string
	values    []string
}

// maxValues is how many values of an argument a program's guest is told.
const maxValues = 100

// keys lists the members of properties in their order.
func keys(properties json.RawMessage) []property {
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
			list[i].values = texts(types[list[i].key].Enum)
		}
	}
	return list
}

// texts are those of the values that an argument may have, none where there are
// too many.
func texts(enum []any) (list []string) {
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

package schema

import (
	"encoding/json"
	"math/big"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// coerce turns a value into one of the wanted types without changing what it
// says, in the ways in which callers mistake types for each other.
func coerce(value any, wanted []string) (any, bool) {
	for _, want := range wanted {
		if coerced, ok := coerceTo(value, want); ok {
			return coerced, true
		}
	}
	return nil, false
}

func coerceTo(value any, want string) (any, bool) {
	switch want {
	case "array":
		if decoded, ok := decodeText(value).([]any); ok {
			return decoded, true
		}
		return []any{value}, value != nil
	case "object":
		decoded, ok := decodeText(value).(map[string]any)
		return decoded, ok
	case "string":
		return toText(value)
	case "integer":
		return toInteger(single(value))
	case "number":
		number, ok := decodeText(single(value)).(json.Number)
		return number, ok
	case "boolean":
		return toBoolean(single(value))
	default:
		return nil, false
	}
}

// decodeText reads JSON that was sent inside a string.
func decodeText(value any) any {
	text, ok := value.(string)
	if !ok {
		return value
	}
	decoded, err := jsonx.Decode([]byte(text), jsonx.Limits{})
	if err != nil || findExcesses(decoded, 0) != nil {
		return value
	}
	return decoded
}

// single takes the element of a list of one.
func single(value any) any {
	if items, ok := value.([]any); ok && len(items) == 1 {
		return items[0]
	}
	return value
}

func toText(value any) (any, bool) {
	switch value := single(value).(type) {
	case string:
		return value, true
	case json.Number:
		return string(value), true
	case bool, map[string]any, []any:
		text, err := jsonx.Marshal(value)
		return string(text), err == nil
	default:
		return nil, false
	}
}

// toInteger rounds to the nearest integer.
func toInteger(value any) (any, bool) {
	number, ok := decodeText(value).(json.Number)
	if !ok {
		return nil, false
	}
	exact, ok := new(big.Rat).SetString(string(number))
	if !ok {
		return nil, false
	}
	return json.Number(exact.FloatString(0)), true
}

func toBoolean(value any) (any, bool) {
	text, _ := value.(string)
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "1":
		return true, true
	case "false", "no", "0":
		return false, true
	default:
		return nil, false
	}
}

// nearestValue picks the value of an enum that was most likely meant, the first
// if none is near, and reports false for an enum of nothing.
func nearestValue(value any, values []any) (any, bool) {
	if len(values) == 0 {
		return nil, false
	}
	said, _ := toText(value)
	var texts []string
	byText := map[string]any{}
	for _, v := range values {
		if text, ok := toText(v); ok {
			texts = append(texts, text.(string))
			byText[text.(string)] = v
		}
	}
	text, _ := said.(string)
	if v, ok := byText[text]; ok {
		return clone(v), true
	}
	if meant, ok := nearestText(text, texts); ok {
		return clone(byText[meant]), true
	}
	return clone(values[0]), true
}

package release

import (
	"encoding/json"
	"testing"
)

func TestWhatMayRefuseMoreIsNarrower(t *testing.T) {
	t.Parallel()
	const before = `{"type": "object", "description": "d", "properties": {"a": {"type": "string", "title": "A"}, "title": {"type": "string"}}, "required": ["a"]}`
	for after, want := range map[string]bool{
		before: false,
		`{"type": "object", "properties": {"a": {"type": "string", "description": "other words"}, "title": {"type": "string"}}, "required": ["a"]}`:     false,
		`{"type": "object", "properties": {"a": {"type": "string"}, "title": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}`:         false,
		`{"type": "object", "properties": {"a": {"type": "string"}, "title": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}`:    true,
		`{"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}, "title": {"type": "string"}}, "required": ["a"]}`:                   true,
		`{"type": "object", "properties": {"a": {"type": "string", "maxLength": 0}, "title": {"type": "string"}}, "required": ["a"]}`:                   true,
		`{"type": "object", "properties": {"a": {"type": "string"}, "title": {"type": "integer"}}, "required": ["a"]}`:                                  true,
		`{"type": "object", "properties": {"a": {"type": "string"}, "title": {"type": "string"}}, "required": ["a"], "not": {"properties": {"a": {}}}}`: true,
		`{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}`:                                 true,
	} {
		if got := narrower(json.RawMessage(before), json.RawMessage(after)); got != want {
			t.Errorf("%s: %v", after, got)
		}
	}
}

package schema_test

import (
	"encoding/json"
	"testing"

	"github.com/toolroom/toolroom/internal/schema"
)

func TestIntegersAreWrittenAsDigits(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(`{
		"type": "object",
		"properties": {
			"n": {"type": "integer"},
			"f": {"type": "number"},
			"either": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
			"maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
			"list": {"type": "array", "items": {"type": "integer"}},
			"pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "integer"}]},
			"map": {"type": "object", "additionalProperties": {"type": "integer"}},
			"tree": {"$ref": "#/$defs/tree"},
			"any": {}
		},
		"$defs": {"tree": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}, "below": {"$ref": "#/$defs/tree"}}}}
	}`), schema.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string]string{
		`{"n":2.0}`:                    `{"n":2}`,
		`{"n":-1.5e1}`:                 `{"n":-15}`,
		`{"n":-0.0}`:                   `{"n":0}`,
		`{"n": 2 , "any":"a.e"}`:       `{"n": 2 , "any":"a.e"}`,
		`{"n":12345678901234567890.0}`: `{"n":12345678901234567890}`,
		`{"f":2.0}`:                    `{"f":2.0}`,
		`{"either":2.0}`:               `{"either":2.0}`,
		`{"any":2.0}`:                  `{"any":2.0}`,
		`{"maybe":1e2}`:                `{"maybe":100}`,
		`{"list":[1.0,2]}`:             `{"list":[1,2]}`,
		`{"pair":[1.0,2.0]}`:           `{"pair":[1.0,2]}`,
		`{"map":{"x":1.0}}`:            `{"map":{"x":1}}`,
		`{"tree":{"below":{"n":3.0}}}`: `{"tree":{"below":{"n":3}}}`,
	} {
		got, err := s.WriteIntegers(json.RawMessage(document))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", document, got, err, want)
		}
	}
}

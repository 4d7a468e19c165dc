package schema_test

import (
	"encoding/json"
	"strings"
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
		`{"n":2.0}`:                     `{"n":2}`,
		`{"n":-1.5e1}`:                  `{"n":-15}`,
		`{"n":-0.0}`:                    `{"n":0}`,
		`{"n": 2 , "any":"a.e"}`:        `{"n": 2 , "any":"a.e"}`,
		`{"n":12345678901234567890.0}`:  `{"n":12345678901234567890}`,
		`{"f":2.0}`:                     `{"f":2.0}`,
		`{"either":2.0}`:                `{"either":2.0}`,
		`{"any":2.0}`:                   `{"any":2.0}`,
		`{"maybe":1e2}`:                 `{"maybe":100}`,
		`{"n":1e38}`:                    `{"n":1` + strings.Repeat("0", 38) + `}`,
		`{"n":1e39}`:                    `{"n":1e39}`,
		`{"n":10000000000000000000e-1}`: `{"n":1000000000000000000}`,
		`{"list":[1.0,2]}`:              `{"list":[1,2]}`,
		`{"pair":[1.0,2.0]}`:            `{"pair":[1.0,2]}`,
		`{"map":{"x":1.0}}`:             `{"map":{"x":1}}`,
		`{"tree":{"below":{"n":3.0}}}`:  `{"tree":{"below":{"n":3}}}`,
	} {
		got, err := s.WriteIntegers(json.RawMessage(document))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", document, got, err, want)
		}
	}
}

// A caller sends a few megabytes of such numbers, and nothing but their size limits the work.
func TestIntegersOfADocumentDoNotMakeItManyTimesAsLong(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile([]byte(`{"type": "array", "items": {"type": "integer"}}`), schema.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []string{"1e400", "1e38", "1e39", "1.0e5"} {
		document := "[" + strings.Repeat(number+",", 1000) + number + "]"
		got, err := s.WriteIntegers(json.RawMessage(document))
		if err != nil || len(got) > 10*len(document) {
			t.Errorf("%s: %d bytes for %d, %v", number, len(got), len(document), err)
		}
	}
}

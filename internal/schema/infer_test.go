package schema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type stamped struct {
	At time.Time `json:"at"`
}

type searchArgs struct {
	stamped
	Query   string             `json:"query" jsonschema:"Words to look for"`
	Limit   int                `json:"limit,omitempty"`
	Tags    []string           `json:"tags"`
	Weights map[string]float64 `json:"weights,omitzero"`
	After   *string            `json:"after"`
	Blob    []byte             `json:"blob"`
	Exact   json.Number        `json:"exact"`
	Extra   json.RawMessage    `json:"extra"`
	Any     any                `json:"any"`
	Pair    [2]uint8           `json:"pair"`
	Skipped string             `json:"-"`
	private string
}

func TestArgumentsAreInferredFromAGoType(t *testing.T) {
	t.Parallel()
	got, err := For[searchArgs]()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{` +
		`"at":{"type":"string","format":"date-time"},` +
		`"query":{"type":"string","description":"Words to look for"},` +
		`"limit":{"type":"integer"},` +
		`"tags":{"type":"array","items":{"type":"string"}},` +
		`"weights":{"type":"object","additionalProperties":{"type":"number"}},` +
		`"after":{"type":["null","string"]},` +
		`"blob":{"type":"string","examples":["aGVsbG8="],"contentEncoding":"base64"},` +
		`"exact":{"type":"number"},"extra":true,"any":true,` +
		`"pair":{"type":"array","items":{"type":"integer","minimum":0,"maximum":255},"minItems":2,"maxItems":2}},` +
		`"required":["at","query","tags","after","blob","exact","extra","any","pair"],"additionalProperties":false}`
	if string(got) != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	s := mustCompile(t, string(got))
	if example, ok := s.Example(); !ok {
		t.Error("no example")
	} else if err := json.Unmarshal(example, new(searchArgs)); err != nil {
		t.Errorf("the example %s does not decode: %v", example, err)
	}
}

func TestTheZeroValueFitsTheSchemaOfAResult(t *testing.T) {
	t.Parallel()
	for _, value := range []any{searchArgs{Exact: "0", private: "x"}, []int(nil), map[string][]string(nil), struct{}{}, "", 0, (*int)(nil), []byte(nil), [1][]int{}} {
		text, err := InferResult(reflect.TypeOf(value))
		if err != nil {
			t.Fatal(err)
		}
		encoded := encode(t, value)
		if err := mustCompile(t, string(text)).Validate(decode(t, string(encoded))); err != nil {
			t.Errorf("%T is %s, which does not fit %s: %v", value, encoded, text, err)
		}
	}
}

func TestATypeWithoutAJSONFormIsNamed(t *testing.T) {
	t.Parallel()
	type tree struct{ Children []tree }
	for _, test := range []struct {
		t    reflect.Type
		want string
	}{
		{reflect.TypeFor[chan int](), "schema of Go type chan int: type chan int is unsupported by jsonschema: change the type, or write the schema by hand"},
		{reflect.TypeFor[tree](), "cycle detected for type schema.tree"},
		{reflect.TypeFor[map[bool]int](), "unsupported map key type bool"},
		{reflect.TypeFor[struct{ F func() }](), "type func() is unsupported"},
		{nil, "schema of a Go type: there is no type"},
	} {
		if _, err := Infer(test.t); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %s", test.t, err, test.want)
		}
	}
}

func TestASchemaThatIsInferredAgainIsNobodyElses(t *testing.T) {
	t.Parallel()
	type again struct {
		List []string `json:"list"`
	}
	typ := reflect.TypeFor[again]()
	forms := map[string]func() (json.RawMessage, error){
		"arguments": func() (json.RawMessage, error) { return Infer(typ) },
		"a result":  func() (json.RawMessage, error) { return InferResult(typ) },
		"with members": func() (json.RawMessage, error) {
			return InferWith(typ, map[string]map[string]any{"list": {"minItems": 1}})
		},
		"other members": func() (json.RawMessage, error) {
			return InferWith(typ, map[string]map[string]any{"list": {"minItems": 2}})
		},
	}
	seen := map[string]string{}
	for name, infer := range forms {
		first, err := infer()
		if err != nil {
			t.Fatal(err)
		}
		want := string(first)
		if other, ok := seen[want]; ok {
			t.Errorf("%s has the schema of %s: %s", name, other, want)
		}
		seen[want] = name
		clear(first)
		if second, err := infer(); err != nil || string(second) != want {
			t.Errorf("%s: %s, %v; the first time %s", name, second, err, want)
		}
	}
	missing := map[string]map[string]any{"none": {}}
	for range 2 {
		if _, err := InferWith(typ, missing); err == nil {
			t.Error("a property that does not exist was taken")
		}
	}
}

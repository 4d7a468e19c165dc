package schema_test

import (
	"fmt"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
)

func Example() {
	s, err := schema.Compile([]byte(`{
		"type": "object",
		"properties": {"path": {"type": "string"}, "lines": {"type": "integer", "minimum": 1}},
		"required": ["path"],
		"additionalProperties": false
	}`), schema.Limits{})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Accepts([]byte(`{"path": "README.md"}`)))

	call, err := jsonx.Decode([]byte(`{"pth": "README.md", "lines": "20"}`), jsonx.Limits{})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Validate(call))
	if repaired, _, ok := schema.Repair(s, call); ok {
		fmt.Println(string(repaired))
	}
	// Output:
	// true
	// /lines: expected integer, got string "20"; /path: missing required property "path", expected string; /pth: unknown property "pth", did you mean "path"?
	// {"lines":20,"path":"README.md"}
}

func ExampleFor() {
	type arguments struct {
		City string `json:"city" jsonschema:"Name of the city"`
		Days int    `json:"days,omitempty"`
	}
	text, err := schema.For[arguments]()
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	// Output:
	// {"type":"object","properties":{"city":{"type":"string","description":"Name of the city"},"days":{"type":"integer"}},"required":["city"],"additionalProperties":false}
}

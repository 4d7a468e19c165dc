package openapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// combining returns a document with an operation whose n arguments each combine the same hundred
// schemas, all through a chain of references.
func combining(n int) string {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0","info":{"title":"t","version":"1"},"servers":[{"url":"http://127.0.0.1:1"}],
		"paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{`)
	for i := range n {
		fmt.Fprintf(&b, `"p%d":{"allOf":[{"$ref":"#/components/schemas/All"}]},`, i)
	}
	b.WriteString(`"last":{}}}}}},"responses":{"200":{"description":"ok"}}}}},"components":{"schemas":{
		"All":{"allOf":[` + strings.Repeat(`{"$ref":"#/components/schemas/R0"},`, 99) + `{}]},`)
	for i := range 15 {
		fmt.Fprintf(&b, `"R%d":{"$ref":"#/components/schemas/R%d"},`, i, i+1)
	}
	b.WriteString(`"R15":{"type":"object"}}}}`)
	return b.String()
}

func TestSchemasThatCombineOthersAreBounded(t *testing.T) { // not parallel: it counts allocations
	set, err := ParseSet("a.json", []byte(combining(1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	reference := set.Root().At("components", "schemas", "R0")
	if target, err := set.Resolve(reference); err != nil || target.Get("type").Text() != "object" {
		t.Fatal(target, err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = set.Resolve(reference) }); n > 0 {
		t.Errorf("following a reference again makes %v allocations", n)
	}
	if set, err = ParseSet("a.json", []byte(combining(25_000)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := importDocument(t.Context(), "x", &Config{}, set, nil); toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
		t.Errorf("2.5 million combined schemas: %v", err)
	}
}

package graphql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTheSelectionOfAHostileSchemaIsBounded(t *testing.T) {
	t.Parallel()
	s := &schema{types: map[string]*typeInfo{}}
	var all []namedRef
	for i := range 12 {
		all = append(all, namedRef{fmt.Sprint("U", i)})
	}
	for i, u := range all { // unions of unions, of which there are 12! orders
		s.types[u.Name] = &typeInfo{Kind: "UNION", Name: u.Name, PossibleTypes: append(all[i:len(all):len(all)], all[:i]...)}
	}
	if text := s.defaultSelection("U0", defaultDepth); len(text) > maxSelection*10 {
		t.Errorf("the selection has %d bytes", len(text))
	}
	wide := &typeInfo{Kind: "OBJECT", Name: "Wide"} // 10,000 fields of objects without plain fields
	for i := range 10_000 {
		wide.Fields = append(wide.Fields, field{Name: fmt.Sprint("f", i), Type: typeRef{Name: "Other"}})
	}
	s.types["Wide"], s.types["Other"] = wide, &typeInfo{Kind: "OBJECT", Name: "Other", Fields: wide.Fields}
	d := defaultBuilder{schema: s, fieldsLeft: maxDefaults, stepsLeft: maxSteps}
	d.selectionOf("Wide", maxDepth, nil)
	if d.stepsLeft < -2*maxDepth-10_000 {
		t.Errorf("%d steps too many", -d.stepsLeft)
	}
}

func TestLargeEnumsAndDeepListsAreDescribedOnly(t *testing.T) {
	t.Parallel()
	deep := typeRef{Name: "E"}
	for range 2000 {
		below := deep
		deep = typeRef{Kind: "LIST", OfType: &below}
	}
	s := &schema{types: map[string]*typeInfo{"E": {Kind: "ENUM", Name: "E", EnumValues: []namedRef{{strings.Repeat("x", maxEnumText)}}}}}
	in := &schemaBuilder{s, maxProperties, maxEnumText}
	text, err := json.Marshal(in.membersSchema([]input{{Name: "a", Type: typeRef{Name: "E"}}, {Name: "b", Type: deep}}, 0))
	if err != nil || len(text) > 20_000 {
		t.Errorf("the schema has %d bytes, %v", len(text), err)
	}
}

func TestASelectionReachesNoOtherTool(t *testing.T) {
	t.Parallel()
	root, plain := typeRef{Kind: "OBJECT", Name: "Query"}, typeRef{Kind: "SCALAR", Name: "String"}
	s := &schema{query: "Query", types: map[string]*typeInfo{
		"Query":  {Kind: "OBJECT", Name: "Query", Fields: []field{{Name: "excluded", Type: plain}, {Name: "viewer", Type: typeRef{Kind: "OBJECT", Name: "Viewer"}}}},
		"Viewer": {Kind: "OBJECT", Name: "Viewer", Fields: []field{{Name: "id", Type: plain}, {Name: "query", Type: root}}},
	}}
	for _, text := range []string{"query { excluded }", "id query { excluded }", "... on Query { excluded }"} {
		if got, err := s.parseSelection("Viewer", text); err == nil {
			t.Errorf("%s is read as %s", text, got)
		}
	}
	if got := s.defaultSelection("Viewer", maxDepth); got != "id" {
		t.Errorf("the default is %s", got)
	}
}

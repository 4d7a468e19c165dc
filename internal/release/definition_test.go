package release_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

func definition(t *testing.T, raw string) *release.Spec {
	t.Helper()
	s, err := release.DefinitionOf("s", &toolroom.Tool{ID: toolroom.MustParseID("s:x"), Raw: json.RawMessage(raw)})
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

func digest(t *testing.T, s *release.Spec) string {
	t.Helper()
	d, err := s.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDigestIsOfWhatIsSaidNotOfHowItIsWritten(t *testing.T) {
	t.Parallel()
	base := `{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	for text, same := range map[string]bool{
		`{"annotations":{"readOnlyHint":true}, "name":"x", "inputSchema": {"type":"object"},"description":"R\u0065ads."}`:         true,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"n":1}}`: false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"timeout":1}`:     false,
		`{"name":"x","description":"Reads. ","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`:                false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`:                false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object","x":1},"annotations":{"readOnlyHint":true}}`:           false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":["new"]}`: false,
	} {
		if got := digest(t, definition(t, text)) == digest(t, definition(t, base)); got != same {
			t.Errorf("%s: same is %v", text, got)
		}
	}
}

func TestAVersionOfADefinitionGivesBackTheTool(t *testing.T) {
	t.Parallel()
	yes := true
	want := toolroom.Tool{
		ID: toolroom.MustParseID("s:x"), Description: "Reads.", InputSchema: json.RawMessage(`{"type":"object"}`),
		Hints: toolroom.Hints{ReadOnly: &yes}, Source: toolroom.SourceMCP, Raw: json.RawMessage(`{"name":"x"}`),
	}
	spec, err := release.DefinitionOf("s", &want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := spec.Tool()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if !spec.ReadOnly || spec.Description != "Reads." {
		t.Errorf("the spec is %+v", spec)
	}
}

func TestADifferenceOfDefinitionsNamesEachPlace(t *testing.T) {
	t.Parallel()
	before := definition(t, `{"name":"x","description":"a","_meta":{"ui":"a"},"inputSchema":{"properties":{"a/b":{"type":"string"},"gone":{}},"required":["a"]}}`)
	after := definition(t, `{"name":"x","description":"b\u202e","_meta":{"ui":"b"},"inputSchema":{"properties":{"a/b":{"type":"number"},"new":{"n":1}},"required":["a","c"]}}`)
	want := []release.Change{
		{Path: "/_meta/ui", Old: "a", New: "b"},
		{Path: "/description", Old: "a", New: "b\u202e"},
		{Path: "/inputSchema/properties/a~1b/type", Old: "string", New: "number"},
		{Path: "/inputSchema/properties/gone", Old: "{}"},
		{Path: "/inputSchema/properties/new", New: `{"n":1}`},
		{Path: "/inputSchema/required", Old: `["a"]`, New: `["a","c"]`},
	}
	if diff := cmp.Diff(want, release.Changes(before, after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnAdditiveChangeAddsOptionalParametersOnly(t *testing.T) {
	t.Parallel()
	base := `{"name":"x","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."},"o":{"type":"object","properties":{"p":{}}}},"required":["a"]},"outputSchema":{"type":"object","properties":{"v":{}}}}`
	for text, additive := range map[string]bool{
		`{"name":"x","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."},"b":{"type":"integer"},"o":{"type":"object","properties":{"p":{},"q":{}}}},"required":["a"]},"outputSchema":{"type":"object","properties":{"v":{},"w":{}},"required":["w"]}}`: true,
		`{"name":"x","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."},"b":{},"o":{"type":"object","properties":{"p":{}}}},"required":["a","b"]},"outputSchema":{"type":"object","properties":{"v":{}}}}`:                                            false,
		`{"name":"x","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"Another."},"o":{"type":"object","properties":{"p":{}}}},"required":["a"]},"outputSchema":{"type":"object","properties":{"v":{}}}}`:                                                 false,
		`{"name":"x","description":"e","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."},"o":{"type":"object","properties":{"p":{}}}},"required":["a"]},"outputSchema":{"type":"object","properties":{"v":{}}}}`:                                                       false,
		`{"name":"x","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."}},"required":["a"]},"outputSchema":{"type":"object","properties":{"v":{}}}}`:                                                                                                   false,
		`{"name":"x","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."},"o":{"type":"object","properties":{"p":{}}}},"required":["a"]},"outputSchema":{"type":"object","properties":{}}}`:                                                             false,
		`{"name":"x","description":"d","_meta":{},"inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"A."},"o":{"type":"object","properties":{"p":{}}}},"required":["a"]},"outputSchema":{"type":"object","properties":{"v":{}}}}`:                                            false,
	} {
		if got := release.Additive(definition(t, base), definition(t, text)); got != additive {
			t.Errorf("%s: additive is %v", text, got)
		}
	}
}

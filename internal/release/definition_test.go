package release_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
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

// TestComparingDefinitionsIsBounded: a server's definitions of a megabyte took a core for
// minutes, or memory for a long name as often as it has members.
func TestComparingDefinitionsIsBounded(t *testing.T) {
	t.Parallel()
	numbered := func(format string, n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strings.ReplaceAll(format, "#", strconv.Itoa(i))
		}
		return strings.Join(list, ",")
	}
	required := numbered(`"#"`, 90_000)
	long := func(kind string) string {
		return `{"properties":{"` + strings.Repeat("long", 100_000) + `":{"properties":{` + numbered(`"m#":{"type":"`+kind+`"}`, 9000) + `}}}}`
	}
	spec := func(schema string) *release.Spec {
		return &release.Spec{
			Raw:         json.RawMessage(`{"inputSchema":{},"outputSchema":` + schema + `}`),
			InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(schema),
		}
	}
	for name, c := range map[string]struct {
		before, after string
		additive      bool
		breaks        []string
	}{
		"required": {
			`{"properties":{` + numbered(`"#":{}`, 9000) + `},"required":[` + required + `]}`,
			`{"properties":{` + numbered(`"#":{}`, 9000) + `},"required":[` + required + `,"more"]}`,
			true,
			[]string{"argument more is now required"},
		},
		"long": {
			long("string"), long("integer"), false,
			[]string{"argument differs in more places than can be listed"},
		},
	} {
		before, after := spec(c.before), spec(c.after)
		if got := release.Additive(before, after); got != c.additive {
			t.Errorf("%s: additive is %t", name, got)
		}
		got := release.Breaks(before, after)
		for _, want := range c.breaks {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %d breaks without %q", name, len(got), want)
			}
		}
		size := 0
		for _, change := range release.Changes(before, after) {
			size += len(change.Path) + len(change.Old) + len(change.New)
		}
		if size == 0 || size > 20<<20 {
			t.Errorf("%s: %d bytes of changes", name, size)
		}
	}
}

func TestChangesWithLongPathsAreAllTold(t *testing.T) {
	t.Parallel()
	member := `"` + strings.Repeat("x", 3<<20) + `":{"a":#,"b":#}`
	before, after := definition(t, `{"name":"x","_meta":{`+strings.ReplaceAll(member, "#", "1")+`}}`), definition(t, `{"name":"x","_meta":{`+strings.ReplaceAll(member, "#", "2")+`}}`)
	got := release.Changes(before, after)
	if len(got) != 1 || got[0].Old != `{"a":1,"b":1}` || got[0].New != `{"a":2,"b":2}` {
		t.Errorf("%d changes", len(got))
	}
}

package code

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/catalog"
)

func entry(id string, kind toolroom.SourceKind, schema string) *catalog.Entry {
	return &catalog.Entry{ID: id, Tool: toolroom.Tool{ID: toolroom.MustParseID(id), Source: kind, InputSchema: json.RawMessage(schema), Description: "Does it."}}
}

// globalsOf are the friendly names in a view, a.b each.
func globalsOf(v view) []string {
	var names []string
	for _, t := range v.tools {
		for _, path := range t.Globals {
			names = append(names, strings.Join(path, "."))
		}
	}
	return names
}

func TestAProgramIsToldOfTheToolsThatItMentions(t *testing.T) {
	t.Parallel()
	var entries []*catalog.Entry
	for i := range 5000 {
		entries = append(entries, entry(fmt.Sprintf("source%d:do", i), toolroom.SourceHTTP, `{}`))
	}
	entries = append(entries, entry("github:create-issue", toolroom.SourceMCP, `{}`), entry("git:status", toolroom.SourceCLI, `{}`))
	v, err := newView("javascript", `await tools.github.create_issue({}); await cli.git.status()`, nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cli.git.status", "git.status", "mcp.github.create_issue", "github.create_issue"}, globalsOf(v)); diff != "" {
		t.Errorf("the friendly names differ (-want +got):\n%s", diff)
	}
}

func TestNothingIsShadowedAndWhatIsLeftOutSaysWhereItIs(t *testing.T) {
	t.Parallel()
	entries := []*catalog.Entry{
		entry("print:page", toolroom.SourceHTTP, ``), entry("csv:read", toolroom.SourceHTTP, ``), entry("tools:list", toolroom.SourceHTTP, ``),
		entry("a-b:c", toolroom.SourceHTTP, ``), entry("a_b:c", toolroom.SourceHTTP, ``), entry("good:one", toolroom.SourceHTTP, ``),
	}
	v, err := newView("python", "import csv\nprint(a_b, good, tools)", nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"good.one"}, globalsOf(v)); diff != "" {
		t.Errorf("the friendly names differ (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"csv": "csv is also a module that this program imports: write tools.csv",
		// A reason would take the place of what a program needs.
		"print": "",
		"tools": "",
		"a_b.c": `a_b.c could be any of a-b:c, a_b:c: write call_tool("a-b:c", ...)`,
	} {
		if got := v.withheld.Text(name); got != want {
			t.Errorf("%s was left out because %q, want %q", name, got, want)
		}
	}
}

func TestAFlatNameSaysHowTheToolIsCalled(t *testing.T) {
	t.Parallel()
	entries := []*catalog.Entry{entry("notes:grep", toolroom.SourceMCP, ``), entry("my-notes:find-all", toolroom.SourceMCP, ``), entry("call:tool", toolroom.SourceMCP, ``)}
	v, err := newView("javascript", "notes_grep(); my_notes__find_all(); call_tool('x'); other_name()", bridge.Map{{Key: "notes__grep", Value: int64(1)}}, entries)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"notes_grep":         "the tool notes:grep is called tools.notes.grep here",
		"my_notes__find_all": "the tool my-notes:find-all is called tools.my_notes.find_all here",
		"call_tool":          "", "notes__grep": "", "other_name": "",
	} {
		if got := v.withheld.Text(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestAnInputMayNotHaveTheNameOfSomethingElse(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tools", "print", "call_tool"} {
		_, err := newView("python", "1", bridge.Map{{Key: name, Value: int64(1)}}, nil)
		if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || !strings.Contains(err.Error(), name) {
			t.Errorf("the input %s: %v", name, err)
		}
	}
	// The name is the input's, and the tool stays tools.github.go. A reason to withhold the
	// name would hide the input.
	v, err := newView("python", "github", bridge.Map{{Key: "github", Value: "x"}}, []*catalog.Entry{entry("github:go", toolroom.SourceHTTP, ``)})
	if err != nil || len(globalsOf(v)) != 0 || len(v.withheld) != 0 || v.hiddenNamespaceHint() != "github is an input of this program: the tools of that name are tools.github" {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestParametersHaveTheTextsThatTheyMayBe(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"x", `, maxValues) + `"x"`
	for schema, want := range map[string][]string{
		`{"properties": {"a": {"type": "string", "enum": ["open", "closed"]}}}`: {"open", "closed"},
		`{"properties": {"a": {"enum": ["open", null, 1]}}}`:                    {"open"},
		`{"properties": {"a": {"enum": [1, 2]}}}`:                               nil,
		`{"properties": {"a": {"type": "string"}}}`:                             nil,
		`{"properties": {"a": {"enum": [` + many + `]}}}`:                       nil,
	} {
		if list, _ := parameters(json.RawMessage(schema)); !slices.Equal(list[0].Values, want) {
			t.Errorf("%s: %q, want %q", schema, list[0].Values, want)
		}
	}
}

func TestParametersKeepTheOrderOfTheSchemaWithRequiredOnesFirst(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]struct {
		names string
		open  bool
	}{
		`{"properties": {"z": {"type": "string"}, "a": {}, "m": {"type": ["string", "null"]}}, "required": ["m"]}`: {"m! z a", false},
		`{"properties": {"a": {}}, "additionalProperties": true}`:                                                  {"a", true},
		`{"properties": {"a": {}}, "additionalProperties": false}`:                                                 {"a", false},
		`{"properties": {"a": {}}, "oneOf": [{}]}`:                                                                 {"a", true},
		`{"type": "object"}`: {"", true},
		`{"properties": 5}`:  {"", true},
		``:                   {"", true},
		`nonsense`:           {"", true},
	} {
		list, open := parameters(json.RawMessage(schema))
		var names []string
		for _, p := range list {
			name := p.Name
			if p.Required {
				name += "!"
			}
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want.names || open != want.open {
			t.Errorf("%s: %q open %v, want %q open %v", schema, got, open, want.names, want.open)
		}
	}
}

package catalog

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func described(t *toolroom.Tool) {
	t.Title, t.Description, t.Notes = "Read", "Read a file.\n\nThe second paragraph.", "note"
	t.InputSchema = json.RawMessage(`{"type":"object","required":["path"],"properties":{"path":{"type":"string"},"mode":{"enum":["a","b"],"default":"a"},"n":{"type":["integer","null"]}}}`)
	t.OutputSchema = json.RawMessage(`{"type":"string"}`)
	t.Tags = []string{"My Tag", "my tag", ""}
	t.Examples = []toolroom.Example{{Title: "one", Arguments: json.RawMessage(`{"path": "it's", "n": 2}`)}}
}

func TestEachLevelTellsMore(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("file:read", described, aliases("cat")))
	e, err := c.Resolve("cat", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := toolroom.Description{
		ID: "file:read", Name: "file__read", Title: "Read", Summary: "Read a file.", Source: toolroom.SourceGo,
		Call: `toolroom call file:read n=2 'path=it'\''s'`,
	}
	check := func(level toolroom.Level) {
		t.Helper()
		got, err := c.Describe(t.Context(), e, level, toolroom.FormCLI)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", level, diff)
		}
	}
	check(toolroom.LevelSummary)
	want.InputSchema, want.Guarantee, want.Required = e.Tool.InputSchema, toolroom.GuaranteeNever, []string{"path"}
	want.Defaults = map[string]any{"mode": json.RawMessage(`"a"`)}
	want.Types = map[string]string{"path": "string", "mode": "one of a | b", "n": "integer | null"}
	check(toolroom.LevelSchema)
	check("")
	want.Text, want.OutputSchema, want.Notes = e.Tool.Description, e.Tool.OutputSchema, "note"
	want.Examples, want.Tags, want.Aliases, want.Providers = e.Tool.Examples, []string{"my-tag"}, []string{"cat"}, []string{"p"}
	check(toolroom.LevelFull)
	if _, err := c.Describe(context.Background(), e, "huge", toolroom.FormCLI); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("an unknown level: %v", err)
	}
}

func TestAReadyCallIsInTheFormOfTheCaller(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("file:read", described))
	e, _ := c.Resolve("file:read", nil)
	for form, want := range map[toolroom.Form]string{
		toolroom.FormCLI:       `toolroom call file:read n=2 'path=it'\''s'`,
		toolroom.FormMCP:       `{"name": "file__read", "arguments": {"path": "it's", "n": 2}}`,
		toolroom.FormMCPSearch: `{"name": "call_tool", "arguments": {"tool": "file:read", "arguments": {"path": "it's", "n": 2}}}`,
		toolroom.FormCode:      `await tools.file.read({"path": "it's", "n": 2})`,
		toolroom.FormPython:    `tools.file.read(path="it's", n=2)`,
	} {
		if got := ReadyCall(e, form); got != want {
			t.Errorf("%s: %s, want %s", form, got, want)
		}
	}
}

func TestAReadyCommandIsOneLineThatAShellReadsAsTheExample(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		`{"id": "1", "text": "yes\n"}`:    `toolroom call file:read '{"id": "1", "text": "yes\n"}'`,
		"{\n  \"list\":\t[1,\n 2]\n}":     `toolroom call file:read '{"list":[1,2]}'`,
		`{"text": "@home"}`:               `toolroom call file:read '{"text": "@home"}'`,
		"{\"text\": \"a\u202eb\"}":        `toolroom call file:read '{"text":"a\u202eb"}'`,
		`{"text": "two  spaces of it's"}`: `toolroom call file:read 'text=two  spaces of it'\''s'`,
	} {
		c := New(Options{})
		register(t, c, "p", tool("file:read", described, func(t *toolroom.Tool) {
			t.Examples = []toolroom.Example{{Arguments: json.RawMessage(args)}}
		}))
		e, err := c.Resolve("file:read", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := ReadyCall(e, toolroom.FormCLI); got != want {
			t.Errorf("%s:\n got %s\nwant %s", args, got, want)
		}
	}
}

func TestWhatAToolSaysOfItselfIsLimited(t *testing.T) {
	t.Parallel()
	example := func(args string) func(*toolroom.Tool) {
		return func(t *toolroom.Tool) { t.Examples = []toolroom.Example{{Arguments: json.RawMessage(args)}} }
	}
	keys := func(n int) string { return `{` + strings.TrimSuffix(strings.Repeat(`"k`+"%"+`":1,`, n), ",") + `}` }
	numbered := func(n int) string {
		text := keys(n)
		for i := range n {
			text = strings.Replace(text, "%", strings.Repeat("x", i+1), 1)
		}
		return text
	}
	for _, tt := range []struct {
		name   string
		change func(*toolroom.Tool)
		fits   bool
	}{
		{"notes of 2000", func(t *toolroom.Tool) { t.Notes = strings.Repeat("n", 2000) }, true},
		{"notes of 2001", func(t *toolroom.Tool) { t.Notes = strings.Repeat("n", 2001) }, false},
		{"11 examples", func(t *toolroom.Tool) { t.Examples = make([]toolroom.Example, 11) }, false},
		{"5 levels", example(`{"a":{"b":{"c":[[1]]}}}`), true},
		{"6 levels", example(`{"a":{"b":{"c":[[[1]]]}}}`), false},
		{"50 keys", example(numbered(50)), true},
		{"51 keys", example(numbered(51)), false},
		{"null", example(`null`), false},
		{"a list", example(`[]`), false},
		{"no arguments", example(``), false},
		{"a result hint of 201", func(t *toolroom.Tool) {
			t.Examples = []toolroom.Example{{Arguments: json.RawMessage(`{}`), ResultHint: strings.Repeat("r", 201)}}
		}, false},
		{"a bad alias", aliases("not an id"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := New(Options{}).Register("p", nil, tool("a:x", tt.change))
			if tt.fits && err != nil || !tt.fits && toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Errorf("fits %v, got %v", tt.fits, err)
			}
		})
	}
}

func TestAHitSaysWhyAndNoHitSaysWhatElse(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	if hint := c.Search("x", SearchOptions{}).Hint; !strings.Contains(hint, "toolroom sources add") {
		t.Errorf("an empty catalog says %q", hint)
	}
	register(t, c, "p", tool("file:read", described), tool("web:fetch"))
	found := c.Search("read file", SearchOptions{})
	if len(found.Hits) == 0 || found.Hits[0].ID != "file:read" || len(found.Hits[0].Why) == 0 || found.Hits[0].Call == "" {
		t.Errorf("found %+v", found)
	}
	none := c.Search("xylophone", SearchOptions{})
	if len(none.Hits) != 0 || none.Total != 2 || !strings.Contains(none.Hint, "2 tools") || !strings.Contains(none.Hint, "toolroom tools") || !strings.Contains(none.Hint, "file (1), web (1)") {
		t.Errorf("no hit says %+v", none)
	}
	if got := c.Search("path", SearchOptions{Namespace: "web"}); len(got.Hits) != 0 || got.Total != 1 {
		t.Errorf("in another namespace: %+v", got)
	}
}

func TestShortenKeepsToItsLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                     "",
		"short":                "short",
		" a\n b\n\nsecond":     "a b",
		"exactly ten":          "exactly…",
		"unbreakableword":      "unbreak…",
		"1234567 90x":          "1234567…",
		"ääääääääää":           "äää…",
		"one two three four":   "one two…",
		"0123456789":           "0123456789",
		"a bcdefghijklmnopqrs": "a bcdef…",
	} {
		if got := Shorten(text, 10); got != want || len(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("Shorten(%q) = %q (%d bytes), want %q", text, got, len(got), want)
		}
	}
}

// TestTypesAreInWords tests the digest of schemas, also of forms that say little.
func TestTypesAreInWords(t *testing.T) {
	t.Parallel()
	_, defaults, types := schemaDigest(json.RawMessage(`{"properties":{
		"stops":{"type":"array","items":{"$ref":"#/$defs/Stop"}},"tags":{"type":"array","items":{"type":"string"}},
		"stop":{"$ref":"#/$defs/Stop","default":{}},"loop":{"$ref":"#/$defs/Loop"},"gone":{"$ref":"#/$defs/None"},
		"pair":{"type":"array","items":[{"type":"string"}]},"list":{"type":"array"},"any":true},
		"$defs":{"Stop":{"type":"object","properties":{"name":true,"minutes":{}}},"Loop":{"type":"array","items":{"$ref":"#/$defs/Loop"}},"x":true}}`))
	want := map[string]string{
		"stops": "array of object {minutes, name}", "tags": "array of string", "stop": "object {minutes, name}",
		"loop": "array of array", "gone": "any", "pair": "array of any", "list": "array", "any": "any",
	}
	if diff := cmp.Diff(want, types); diff != "" || len(defaults) != 1 {
		t.Errorf("-want +got\n%s%v", diff, defaults)
	}
}

func TestExampleWordsFitTheSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"required":["n","who"],"properties":{"n":{"type":"integer"},"who":{"type":"string"}}}`: "n=0 'who=<who>'",
		`{"required":["day"],"properties":{"day":{"type":"string","format":"date"}}}`:            "day=2026-01-31",
		`{"properties":{"n":{"type":"integer"}}}`:                                                "",
	} {
		if got := ExampleWords(json.RawMessage(schema)); got != want {
			t.Errorf("%s: %s, not %s", schema, got, want)
		}
	}
}

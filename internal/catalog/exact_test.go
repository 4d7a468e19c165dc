package catalog

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

// What is copied from a description must mean the same.
func TestTheArgumentsOfAReadyCallAreExact(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"id": 9007199254740993}`: "toolroom call t:x id=9007199254740993",
		`{"limit": 1000000}`:       "toolroom call t:x limit=1000000",
		`{"limit": 25000000.5}`:    "toolroom call t:x limit=25000000.5",
		`{"a=b": "c"}`:             `toolroom call t:x '{"a=b": "c"}'`,
		`{"a:": "c"}`:              `toolroom call t:x '{"a:": "c"}'`,
		`{"": "c"}`:                `toolroom call t:x '{"": "c"}'`,
		`{"-k": "c"}`:              `toolroom call t:x '{"-k": "c"}'`,
	} {
		if got := ShellCall("t:x", json.RawMessage(arguments)); got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
}

func TestTheValuesOfAnEnumAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	_, defaults, types := schemaDigest(json.RawMessage(`{"properties": {
		"size": {"enum": [1000000, 9007199254740993, null, "a", true]},
		"none": {"type": ["string", "null"], "default": null}}}`))
	want := map[string]string{"size": "one of 1000000 | 9007199254740993 | null | a | true", "none": "string | null"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"none": json.RawMessage(`null`)}, defaults); diff != "" {
		t.Errorf("defaults: -want +got\n%s", diff)
	}
}

// JSON writes some characters as two escapes, which in Python are two characters.
func TestAnEscapedCharacterIsOneInPython(t *testing.T) {
	t.Parallel()
	c := New(Options{})
	register(t, c, "p", tool("a:b", func(t *toolroom.Tool) {
		t.Examples = []toolroom.Example{{Arguments: json.RawMessage(`{"mood": "\ud83d\ude00 \"\u00e9\" \\ud83d \/"}`)}}
	}))
	e, err := c.Resolve("a:b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ReadyCall(e, toolroom.FormPython), "tools.a.b(mood=\"😀 \\\"é\\\" \\\\ud83d /\")"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

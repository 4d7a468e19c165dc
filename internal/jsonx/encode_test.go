package jsonx

import (
	"encoding/json"
	"testing"
)

func TestMarshalFollowsStructTagsAndLeavesTextReadable(t *testing.T) {
	t.Parallel()
	type call struct {
		Args  json.RawMessage `json:"args"`
		Count json.Number     `json:"count"`
		Query string          `json:"query,omitempty"`
		inner int
	}
	for name, test := range map[string]struct {
		value any
		want  string
	}{
		"tree":           {map[string]any{"b": []any{json.Number("9007199254740993"), nil}, "a": "<b> & c"}, `{"a":"<b> & c","b":[9007199254740993,null]}`},
		"struct":         {call{Args: json.RawMessage(`{"x":1}`), Count: "12", inner: 1}, `{"args":{"x":1},"count":12}`},
		"scalar":         {"x", `"x"`},
		"trailing lines": {"\n", `"\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Marshal(test.value)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestMarshalNamesTheTypeThatHasNoForm(t *testing.T) {
	t.Parallel()
	_, err := Marshal(make(chan int))
	if err == nil || err.Error() != "encode chan int as JSON: json: unsupported type: chan int" {
		t.Errorf("got %v", err)
	}
}

func TestAStringIsAppendedAsMarshalEncodesIt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a b", "<a href='x'>&</a>", `"`, `\`, "a\nb\tc\x00", "\x7f", "é", "\u2028", "\U0001f600", "a\xffb"} {
		want, err := Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendString([]byte("x:"), text); string(got) != "x:"+string(want) {
			t.Errorf("%q is %s, not %s", text, got, want)
		}
	}
}

package cli

import (
	"encoding/json"
	"testing"
)

func TestIndentShowsEscapedSignsAsTheyAre(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(map[string]string{"a": `<b> & \u003c \"`})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := indentJSON(raw), "{\n  \"a\": \"<b> & \\\\u003c \\\\\\\"\"\n}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

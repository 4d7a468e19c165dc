package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestASlipOfTheKeyboardIsNoAnswer(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct{ known, yes bool }{
		"y": {true, true}, "Yes": {true, true}, "session": {true, true}, "always": {true, true},
		"": {true, false}, "n": {true, false}, "no": {true, false}, "no not on production": {true, false},
		"t": {}, "yy": {}, "sesion": {}, "y please": {}, "what is that?": {},
	} {
		got, known := typedAnswer(typed, "ann")
		if known != want.known || got.Approve != want.yes {
			t.Errorf("%q: known %v, approves %v", typed, known, got.Approve)
		}
	}
	if got, _ := typedAnswer("n not on production", "ann"); got.Comment != "not on production" || got.By != "ann" {
		t.Errorf("the comment is %+v", got)
	}
}

func TestApprovalsShowCodeInItsLines(t *testing.T) {
	t.Parallel()
	a, shown := terminal()
	p := &toolroom.Approval{Tool: "code:release_proposal", Arguments: json.RawMessage(`{"code":"def a():\n    return 1\u001b[2J\n","tool":"fn:a"}`)}
	if err := a.showApproval(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := shown.String(); !strings.Contains(got, "  code\n    def a():\n        return 1") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("got %q", got)
	}
	for _, arguments := range []string{`{"code":"1 + 1"}`, `{"code":7}`, `{"CODE":"a\nb"}`, `[]`} {
		if code := codeIn(json.RawMessage(arguments)); code != "" {
			t.Errorf("%s: %q", arguments, code)
		}
	}
}

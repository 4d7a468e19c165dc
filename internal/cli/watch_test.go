package cli

import "testing"

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

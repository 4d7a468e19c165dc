package taint_test

import (
	"fmt"
	"testing"

	"github.com/toolroom/toolroom/internal/taint"
)

func TestOnlyBothTogetherAreDangerous(t *testing.T) {
	t.Parallel()
	private, untrusted := taint.Mark{Label: taint.Private, Tool: "files:read"}, taint.Mark{Label: taint.Untrusted, Tool: "web:fetch"}
	for _, c := range []struct {
		marks []taint.Mark
		want  string
	}{
		{nil, ""},
		{[]taint.Mark{private}, ""},
		{[]taint.Mark{untrusted, {Label: "mine", Tool: "x:y"}}, ""},
		{[]taint.Mark{untrusted, private}, "this call would send data read from files:read (private) to mail:send, with content from web:fetch (untrusted) in reach"},
	} {
		if got := taint.Judge(c.marks, "mail:send"); got != c.want {
			t.Errorf("%v: got %q", c.marks, got)
		}
	}
}

func TestAFullReachStillTakesTheFirstOfEachLabel(t *testing.T) {
	t.Parallel()
	var r taint.Reach
	for i := range 10_000 {
		r.Add(taint.Mark{Label: fmt.Sprint("label", i%100), Tool: fmt.Sprint("t:", i)})
	}
	if n := len(r.Marks()); n > 400 {
		t.Errorf("%d marks are kept", n)
	}
	private := taint.Mark{Label: taint.Private, Tool: "files:read"}
	if fresh := r.Add(private); len(fresh) != 1 {
		t.Errorf("a new label found no room")
	}
	if fresh := r.Add(private); len(fresh) != 0 {
		t.Errorf("%v is new twice", fresh)
	}
}

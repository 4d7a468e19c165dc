package taint_test

import (
	"fmt"
	"testing"

	"github.com/toolroom/toolroom/internal/taint"
)

func TestOnlyBothTogetherAreDangerous(t *testing.T) {
	t.Parallel()
	private, untrusted := taint.Label{Name: taint.Private, Tool: "files:read"}, taint.Label{Name: taint.Untrusted, Tool: "web:fetch"}
	for _, c := range []struct {
		labels []taint.Label
		want   string
	}{
		{nil, ""},
		{[]taint.Label{private}, ""},
		{[]taint.Label{untrusted, {Name: "mine", Tool: "x:y"}}, ""},
		{[]taint.Label{untrusted, private}, "this call would send data read from files:read (private) to mail:send, after content from web:fetch (untrusted) was read"},
	} {
		if got := taint.SendRisk(c.labels, "mail:send"); got != c.want {
			t.Errorf("%v: got %q", c.labels, got)
		}
	}
}

func TestAFullSetStillTakesTheFirstOfEachLabel(t *testing.T) {
	t.Parallel()
	var r taint.Set
	for i := range 10_000 {
		r.Add(taint.Label{Name: fmt.Sprint("label", i%100), Tool: fmt.Sprint("t:", i)})
	}
	if n := len(r.Labels()); n > 400 {
		t.Errorf("%d labels are kept", n)
	}
	private := taint.Label{Name: taint.Private, Tool: "files:read"}
	if fresh := r.Add(private); len(fresh) != 1 {
		t.Errorf("a new label found no room")
	}
	if fresh := r.Add(private); len(fresh) != 0 {
		t.Errorf("%v is new twice", fresh)
	}
}

package policy

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

func TestAnElevationMayNameGroupsOfTheConfig(t *testing.T) {
	t.Parallel()
	c := Config{Groups: map[string][]string{"mine": {"notes.*"}}, Sensitive: Sensitive{Tools: []string{"*"}}}
	now := time.Now()
	e, err := NewElevation(c, Elevation{Subject: "ann", By: "me", Tools: []string{"group:mine"}}, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	p := compile(t, c).WithElevations(elevations{*e})
	for name, want := range map[string]toolroom.Verdict{"notes:read": toolroom.VerdictAllow, "file:read": toolroom.VerdictDeny} {
		got := p.Decide(t.Context(), Request{Tool: tool(name), Who: toolroom.Identity{Subject: "ann"}, Call: &Context{}})
		if got.Effect != want {
			t.Errorf("%s: %s by %s, want %s", name, got.Effect, got.Rule, want)
		}
	}
	if _, err := NewElevation(Config{}, Elevation{Subject: "ann", By: "me", Tools: []string{"group:mine"}}, 0, now); err == nil {
		t.Error("an unknown group is accepted")
	}
}

package policy

import (
	"testing"

	"github.com/toolroom/toolroom"
)

func TestHooksAndAutonomyDecideTogether(t *testing.T) {
	t.Parallel()
	hooks := []Hook{{"file.read", ActionSilent}, {"file.*", ActionConfirm}, {"web.*", ActionLog}}
	for name, tt := range map[string]struct {
		global, agent Autonomy
		tool          string
		want          toolroom.Verdict
		log           bool
	}{
		"no hook":                                {"", "", "memory:read", toolroom.VerdictAllow, false},
		"the first hook that fits counts":        {"", "", "file:read", toolroom.VerdictAllow, false},
		"confirm asks":                           {"", "", "file:list", toolroom.VerdictConfirm, false},
		"log logs":                               {Standard, "", "web:fetch", toolroom.VerdictAllow, true},
		"silent is not asked by standard":        {Standard, "", "shell:exec", toolroom.VerdictAllow, false},
		"conservative asks in spite of none":     {Conservative, "", "shell:exec", toolroom.VerdictConfirm, false},
		"conservative leaves others alone":       {Conservative, "", "memory:read", toolroom.VerdictAllow, false},
		"autonomous logs in place of asking":     {Autonomous, "", "file:list", toolroom.VerdictAllow, true},
		"an agent's level narrows":               {Autonomous, Conservative, "file:write", toolroom.VerdictConfirm, false},
		"an agent's level narrows to standard":   {Autonomous, Standard, "file:list", toolroom.VerdictConfirm, false},
		"an agent's level never widens":          {Standard, Autonomous, "file:list", toolroom.VerdictConfirm, false},
		"nor from the level that is not written": {"", Autonomous, "file:list", toolroom.VerdictConfirm, false},
	} {
		c := Config{Rules: Rules{Autonomy: tt.global}, Hooks: hooks, Agents: map[string]Rules{"a": {Autonomy: tt.agent}}}
		got := decide(compile(t, c), tool(tt.tool), toolroom.Identity{Agent: "a"})
		if got.Effect != tt.want || got.Log != tt.log {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAutonomousLiftsNoQuestionButThoseOfHooks(t *testing.T) {
	t.Parallel()
	c := Config{
		Rules: Rules{Autonomy: Autonomous, Confirm: []string{"a.x"}}, Hooks: []Hook{{"*", ActionConfirm}},
		Sensitive: Sensitive{Tools: []string{"a.y"}, Mode: ConfirmWithoutElevation},
	}
	for id, want := range map[string]toolroom.Verdict{"a:x": toolroom.VerdictConfirm, "a:y": toolroom.VerdictConfirm, "a:z": toolroom.VerdictAllow} {
		if got := decide(compile(t, c), tool(id), toolroom.Identity{}); got.Effect != want {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

func TestIsolationsAreOrderedByWhatHoldsTheCode(t *testing.T) {
	t.Parallel()
	order := []toolroom.Isolation{toolroom.IsolationNone, toolroom.IsolationProcess, toolroom.IsolationContainer, toolroom.IsolationGVisor, toolroom.IsolationVM}
	for i, weaker := range order {
		for j, other := range order {
			if AtLeast(other, weaker) != (j >= i) {
				t.Errorf("%s holds %s: %v", other, weaker, AtLeast(other, weaker))
			}
		}
	}
	for _, pair := range [][2]toolroom.Isolation{{"firecracker", "kata"}, {"docker", "wasm"}, {"", "none"}, {"", ""}} {
		if !AtLeast(pair[0], pair[1]) {
			t.Errorf("%q does not hold %q", pair[0], pair[1])
		}
	}
	if AtLeast(toolroom.Isolation("unheard-of"), toolroom.IsolationProcess) || AtLeast(toolroom.IsolationVM, "unheard-of") {
		t.Error("an unknown word holds, or is held")
	}
	for i, want := range map[toolroom.Isolation]toolroom.Isolation{"": toolroom.IsolationNone, "sandbox": toolroom.IsolationProcess, "docker": toolroom.IsolationContainer, "wasm": toolroom.IsolationContainer, "gvisor": toolroom.IsolationGVisor, "kata": toolroom.IsolationVM, "unheard-of": toolroom.IsolationNone} {
		if got := Strength(i); got != want {
			t.Errorf("the strength of %q is %s, want %s", i, got, want)
		}
	}
	if _, err := ParseIsolation("gvizor"); err == nil {
		t.Error("gvizor is taken")
	}
}

func TestTheOrderOfTheStepsIsThatOfTheReference(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{
		Agents: map[string]Rules{"a": {}}, Providers: map[string]Rules{"p": {}}, Identities: map[string]Rules{"s": {}},
		Skills:    map[string]Skill{"k": {Permissions: &Permissions{Tools: &[]string{"*"}}}},
		Denylist:  []Denial{{Tool: "*"}},
		Sensitive: Sensitive{Tools: []string{"*"}},
		Hooks:     []Hook{{"*", ActionConfirm}},
	})
	got := decide(p, tool("x:y"), toolroom.Identity{Subject: "s", Agent: "a", Provider: "p", Skill: "k"})
	want := []string{"tools", "tools.agents.a", "tools.providers.p", "tools.identities.s", "tools.skills.k", "tools.immutable_denylist", "tools.sensitive", "tools.hooks"}
	if len(got.Steps) != len(want) {
		t.Fatalf("%+v", got.Steps)
	}
	for i, layer := range want {
		if got.Steps[i].Layer != layer {
			t.Errorf("step %d is %s, want %s", i+1, got.Steps[i].Layer, layer)
		}
	}
}

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
		want          Effect
		log           bool
	}{
		"no hook":                                {"", "", "memory:read", Allow, false},
		"the first hook that fits counts":        {"", "", "file:read", Allow, false},
		"confirm asks":                           {"", "", "file:list", Confirm, false},
		"log logs":                               {Standard, "", "web:fetch", Allow, true},
		"silent is not asked by standard":        {Standard, "", "shell:exec", Allow, false},
		"conservative asks in spite of none":     {Conservative, "", "shell:exec", Confirm, false},
		"conservative leaves others alone":       {Conservative, "", "memory:read", Allow, false},
		"autonomous logs in place of asking":     {Autonomous, "", "file:list", Allow, true},
		"an agent's level narrows":               {Autonomous, Conservative, "file:write", Confirm, false},
		"an agent's level narrows to standard":   {Autonomous, Standard, "file:list", Confirm, false},
		"an agent's level never widens":          {Standard, Autonomous, "file:list", Confirm, false},
		"nor from the level that is not written": {"", Autonomous, "file:list", Confirm, false},
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
	for id, want := range map[string]Effect{"a:x": Confirm, "a:y": Confirm, "a:z": Allow} {
		if got := decide(compile(t, c), tool(id), toolroom.Identity{}); got.Effect != want {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

func TestIsolationsAreOrderedByWhatHoldsTheCode(t *testing.T) {
	t.Parallel()
	order := []Isolation{IsolationNone, IsolationProcess, IsolationContainer, IsolationGVisor, IsolationVM}
	for i, weaker := range order {
		for j, other := range order {
			if other.Holds(weaker) != (j >= i) {
				t.Errorf("%s holds %s: %v", other, weaker, other.Holds(weaker))
			}
		}
	}
	for _, pair := range [][2]Isolation{{"firecracker", "kata"}, {"docker", "wasm"}, {"", "none"}, {"", ""}} {
		if !pair[0].Holds(pair[1]) {
			t.Errorf("%q does not hold %q", pair[0], pair[1])
		}
	}
	if Isolation("unheard-of").Holds(IsolationProcess) || IsolationVM.Holds("unheard-of") {
		t.Error("an unknown word holds, or is held")
	}
	for i, want := range map[Isolation]Isolation{"": IsolationNone, "sandbox": IsolationProcess, "docker": IsolationContainer, "wasm": IsolationContainer, "gvisor": IsolationGVisor, "kata": IsolationVM, "unheard-of": IsolationNone} {
		if got := i.Strength(); got != want {
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

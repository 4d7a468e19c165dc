package policy

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolroom/toolroom"
)

func compile(t testing.TB, c Config) *Policy {
	t.Helper()
	l, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func decide(d Decider, t *toolroom.Tool, who toolroom.Identity) Decision {
	return d.Decide(context.Background(), Request{Tool: t, Who: who, Call: &Context{}})
}

func tool(id string) *toolroom.Tool { return &toolroom.Tool{ID: toolroom.MustParseID(id)} }

func TestLayersDecideAsDocumented(t *testing.T) {
	t.Parallel()
	config := Config{
		Rules: Rules{Profile: "minimal", Allow: []string{"github.*"}, Deny: []string{"*:delete_*"}, Confirm: []string{"github:merge"}},
		Agents: map[string]Rules{
			"fast":   {Profile: "full", Deny: []string{"web.fetch"}},
			"narrow": {Allow: []string{"file.read", "shell.exec"}},
			"asking": {Confirm: []string{"file.*"}},
		},
		Providers:  map[string]Rules{"ollama": {Deny: []string{"group:fs"}}},
		Identities: map[string]Rules{"ann": {Profile: "own"}, "local": {Deny: []string{"system.info"}}},
		Profiles:   map[string][]string{"own": {"file.list", "github.merge"}},
	}
	layers := compile(t, config)
	bob := toolroom.Identity{Subject: "bob"}
	with := func(agent, provider string) toolroom.Identity {
		return toolroom.Identity{Subject: "bob", Agent: agent, Provider: provider}
	}
	for _, tt := range []struct {
		name, tool string
		who        toolroom.Identity
		effect     toolroom.Verdict
		rule       string
	}{
		{"the profile permits", "file:read", bob, toolroom.VerdictAllow, "tools.profile: minimal"},
		{"the profile has not got it", "shell:exec", bob, toolroom.VerdictDeny, `tools: neither its profile "minimal" nor its allow list has it`},
		{"allow adds to the profile", "github:create_issue", bob, toolroom.VerdictAllow, `tools.allow[0]: "github.*"`},
		{"deny beats allow", "github:delete_repo", bob, toolroom.VerdictDeny, `tools.deny[0]: "*:delete_*"`},
		{"confirm asks", "github:merge", bob, toolroom.VerdictConfirm, `tools.confirm[0]: "github:merge"`},
		{"an agent's profile does not widen", "shell:exec", with("fast", ""), toolroom.VerdictDeny, `tools: neither its profile "minimal" nor its allow list has it`},
		{"an agent's deny narrows", "web:fetch", with("fast", ""), toolroom.VerdictDeny, `tools.agents.fast.deny[0]: "web.fetch"`},
		{"an agent's allow narrows to it", "file:list", with("narrow", ""), toolroom.VerdictDeny, `tools.agents.narrow: its allow list does not have it`},
		{"what an agent's allow names stays", "file:read", with("narrow", ""), toolroom.VerdictAllow, "tools.profile: minimal"},
		{"an agent's allow does not widen", "shell:exec", with("narrow", ""), toolroom.VerdictDeny, `tools: neither its profile "minimal" nor its allow list has it`},
		{"an agent's confirm asks", "file:read", with("asking", ""), toolroom.VerdictConfirm, `tools.agents.asking.confirm[0]: "file.*"`},
		{"the first who asks is named", "github:merge", with("asking", ""), toolroom.VerdictConfirm, `tools.confirm[0]: "github:merge"`},
		{"an unknown agent has the least of all: what one asks about", "file:read", with("nobody", ""), toolroom.VerdictConfirm, `tools.agents.asking.confirm[0]: "file.*"`},
		{"an unknown agent has the least of all: what one denies", "web:fetch", with("nobody", ""), toolroom.VerdictDeny, `tools.agents.fast.deny[0]: "web.fetch"`},
		{"an unknown agent has the least of all: what one lacks", "github:create_issue", with("fsat", ""), toolroom.VerdictDeny, `tools.agents.narrow: its allow list does not have it`},
		{"an unknown provider has the least of all", "file:read", with("", "olama"), toolroom.VerdictDeny, `tools.providers.ollama.deny[0]: "group:fs"`},
		{"who names no agent has no layer of agents", "file:read", with("", ""), toolroom.VerdictAllow, "tools.profile: minimal"},
		{"a provider's group narrows", "file:read", with("", "ollama"), toolroom.VerdictDeny, `tools.providers.ollama.deny[0]: "group:fs"`},
		{"a provider's deny beats an agent's confirm", "file:read", with("asking", "ollama"), toolroom.VerdictDeny, `tools.providers.ollama.deny[0]: "group:fs"`},
		{"an identity's profile narrows", "file:read", toolroom.Identity{Subject: "ann"}, toolroom.VerdictDeny, `tools.identities.ann: neither its profile "own" nor its allow list has it`},
		{"an identity's profile does not lift a question", "github:merge", toolroom.Identity{Subject: "ann"}, toolroom.VerdictConfirm, `tools.confirm[0]: "github:merge"`},
		{"the operator is the identity local", "system:info", toolroom.Identity{}, toolroom.VerdictDeny, `tools.identities.local.deny[0]: "system.info"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := decide(layers, tool(tt.tool), tt.who)
			if got.Effect != tt.effect || got.Rule != tt.rule {
				t.Errorf("got %s by %s, want %s by %s", got.Effect, got.Rule, tt.effect, tt.rule)
			}
			unknown := tt.who.Agent == "nobody" || tt.who.Agent == "fsat" || tt.who.Provider == "olama"
			if unknown && got.Effect == toolroom.VerdictDeny {
				if !strings.HasPrefix(got.Hint, "there is no ") || tt.who.Agent == "fsat" && !strings.Contains(got.Hint, "did you mean fast?") {
					t.Errorf("the unknown name is not said: %q", got.Hint)
				}
				return
			}
			if got.Effect == toolroom.VerdictDeny && !strings.HasPrefix(got.CLIHint, "see which layer decided: toolroom policy explain") {
				t.Errorf("no next step: %q", got.CLIHint)
			}
			if strings.HasSuffix(got.Rule, "nor its allow list has it") && !strings.Contains(got.CLIHint, `.allow`) {
				t.Errorf("it is not said what permits the tool: %q", got.CLIHint)
			}
		})
	}
}

func TestTheZeroConfigAllowsAll(t *testing.T) {
	t.Parallel()
	for _, d := range []Decider{compile(t, Config{}), AllowAll{}} {
		if got := decide(d, tool("any:thing"), toolroom.Identity{}); got.Effect != toolroom.VerdictAllow || got.Rule == "" {
			t.Errorf("%T: %+v", d, got)
		}
	}
}

func TestGlobalAllowWithoutAProfileTakesNothingAway(t *testing.T) {
	t.Parallel()
	l := compile(t, Config{Rules: Rules{Allow: []string{"file.read"}}})
	if got := decide(l, tool("web:fetch"), toolroom.Identity{}); got.Effect != toolroom.VerdictAllow {
		t.Errorf("%+v: the default profile is full", got)
	}
}

func TestProfilesAreThoseOfTheReferenceAndEachHoldsTheOneBefore(t *testing.T) {
	t.Parallel()
	order := []string{ProfileMinimal, ProfileMessaging, ProfileCoding, ProfileFull}
	first := map[string]string{ // tool: the first profile that has it
		"file:read": ProfileMinimal, "file:list": ProfileMinimal, "web:fetch": ProfileMinimal, "system:info": ProfileMinimal,
		"memory:write": ProfileMessaging, "web:search.news": ProfileMessaging, "tasks:list": ProfileMessaging, "cron:create": ProfileMessaging,
		"k8s:logs": ProfileMessaging, "council:run": ProfileMessaging,
		"file:write": ProfileCoding, "shell:exec": ProfileCoding, "process:kill": ProfileCoding, "browser:eval": ProfileCoding,
		"tasks:delete": ProfileFull, "k8s:delete": ProfileFull, "my:own": ProfileFull,
	}
	for id, from := range first {
		has := false
		for _, profile := range order {
			has = has || profile == from
			got := decide(compile(t, Config{Rules: Rules{Profile: profile}}), tool(id), toolroom.Identity{}).Effect == toolroom.VerdictAllow
			if got != has {
				t.Errorf("profile %s has %s: %v, want %v", profile, id, got, has)
			}
		}
	}
}

func TestProfilesAndGroupsOfYourOwnReplaceThoseOfTheSameName(t *testing.T) {
	t.Parallel()
	l := compile(t, Config{
		Rules:    Rules{Profile: "minimal", Deny: []string{"group:fs"}},
		Profiles: map[string][]string{"minimal": {"group:mine"}},
		Groups:   map[string][]string{"fs": {"disk.*"}, "mine": {"disk.*", "file.*"}},
	})
	for id, want := range map[string]toolroom.Verdict{"file:read": toolroom.VerdictAllow, "disk:read": toolroom.VerdictDeny, "web:fetch": toolroom.VerdictDeny} {
		if got := decide(l, tool(id), toolroom.Identity{}); got.Effect != want {
			t.Errorf("%s: %+v, want %s", id, got, want)
		}
	}
}

func TestEveryMistakeIsToldWithItsKeyAndTheNearestName(t *testing.T) {
	t.Parallel()
	config := Config{
		Rules:      Rules{Profile: "minimum", Allow: []string{"file.read", "read"}, Deny: []string{"group:memroy"}, Confirm: []string{"hint:destroy"}},
		Agents:     map[string]Rules{"fast": {Profile: "codign"}, "b": {Deny: []string{"a b.c"}}},
		Providers:  map[string]Rules{"ollama": {Allow: []string{"source:mpc"}}},
		Identities: map[string]Rules{"ann": {Deny: []string{"tag:"}}},
		Profiles:   map[string][]string{"own": {"mcp:a:b:c"}},
		Groups:     map[string][]string{"z": {":x"}, "a": {"x."}},
	}
	_, err := Compile(config)
	if err == nil {
		t.Fatal("no error")
	}
	wants := []struct{ key, says string }{
		{"tools.allow[1]: ", "no namespace"},
		{"tools.deny[0]: ", "did you mean memory?"},
		{"tools.confirm[0]: ", "read_only, destructive, idempotent or open_world"},
		{"tools.profile: ", "did you mean minimal?"},
		{"tools.agents.b.deny[0]: ", "not allowed in a pattern"},
		{"tools.agents.fast.profile: ", "did you mean coding?"},
		{"tools.providers.ollama.allow[0]: ", "did you mean mcp?"},
		{"tools.identities.ann.deny[0]: ", "tag:name"},
		{"tools.profiles.own[0]: ", "can match no tool"},
		{"tools.groups.a[0]: ", "can match no tool"},
		{"tools.groups.z[0]: ", "can match no tool"},
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(wants) {
		t.Fatalf("%d mistakes, want %d:\n%v", len(lines), len(wants), err)
	}
	for i, want := range wants {
		if !strings.HasPrefix(lines[i], want.key) || !strings.Contains(lines[i], want.says) {
			t.Errorf("line %d is %q, want %q … %q", i, lines[i], want.key, want.says)
		}
	}
	again, second := Compile(config)
	if again == nil || second.Error() != err.Error() {
		t.Errorf("the second time the mistakes are\n%v", second)
	}
	_, err = Compile(Config{Rules: Rules{Profile: "xylophone"}})
	if err == nil || !strings.Contains(err.Error(), "there are coding, full, messaging, minimal") {
		t.Errorf("nothing is near, so all are listed: %v", err)
	}
}

func TestExplainShowsEveryLayerThatApplies(t *testing.T) {
	t.Parallel()
	l := compile(t, Config{
		Agents:     map[string]Rules{"fast": {Profile: "minimal"}},
		Providers:  map[string]Rules{"ollama": {Confirm: []string{"web.*"}}},
		Identities: map[string]Rules{"ann": {Deny: []string{"web.*"}}},
	})
	who := toolroom.Identity{Subject: "ann", Agent: "fast", Provider: "ollama"}
	want := []toolroom.PolicyStep{
		{Layer: "tools", Effect: toolroom.VerdictAllow, Rule: "tools: no profile"},
		{Layer: "tools.agents.fast", Effect: toolroom.VerdictAllow, Rule: "tools.agents.fast.profile: minimal"},
		{Layer: "tools.providers.ollama", Effect: toolroom.VerdictConfirm, Rule: `tools.providers.ollama.confirm[0]: "web.*"`},
		{Layer: "tools.identities.ann", Effect: toolroom.VerdictDeny, Rule: `tools.identities.ann.deny[0]: "web.*"`},
	}
	got := decide(l, tool("web:fetch"), who)
	if diff := cmp.Diff(want, got.Steps); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if want := "see which layer decided: toolroom policy explain --subject ann --agent fast --provider ollama web:fetch"; got.CLIHint != want {
		t.Errorf("hint %q, want %q", got.CLIHint, want)
	}
}

// What the property tests draw: few names, so that rules and tools often meet.
// Tests that share generators do not run in parallel: rapid names them lazily,
// without a lock.
var (
	drawPattern = rapid.SampledFrom([]string{
		"*", "a.*", "b.*", "a.x", "b:y", "*:x", "*:*y", "mcp:a:*", "mcp:*:y", "group:g", "group:fs",
		"hint:destructive", "hint:read_only", "tag:beta", "source:mcp", "source:go",
	})
	drawPatterns = rapid.SliceOfN(drawPattern, 0, 3)
	drawRules    = rapid.Custom(func(t *rapid.T) Rules {
		return Rules{
			Profile: rapid.SampledFrom([]string{"", "", "full", "minimal", "p"}).Draw(t, "profile"),
			Allow:   drawPatterns.Draw(t, "allow"), Deny: drawPatterns.Draw(t, "deny"), Confirm: drawPatterns.Draw(t, "confirm"),
		}
	})
	drawNamedRules = rapid.MapOfN(rapid.SampledFrom([]string{"one", "two"}), drawRules, 0, 2)
	drawConfig     = rapid.Custom(func(t *rapid.T) Config {
		return Config{
			Rules:  drawRules.Draw(t, "global"),
			Agents: drawNamedRules.Draw(t, "agents"), Providers: drawNamedRules.Draw(t, "providers"), Identities: drawNamedRules.Draw(t, "identities"),
			Profiles: map[string][]string{"p": drawPatterns.Draw(t, "profile p")},
			Groups:   map[string][]string{"g": {"a.x", "b.*"}},
		}
	})
	drawWho = rapid.Custom(func(t *rapid.T) toolroom.Identity {
		name := rapid.SampledFrom([]string{"", "one", "two", "three"})
		return toolroom.Identity{Subject: name.Draw(t, "subject"), Agent: name.Draw(t, "agent"), Provider: name.Draw(t, "provider")}
	})
	drawTool = rapid.Custom(func(t *rapid.T) *toolroom.Tool {
		hint := rapid.SampledFrom([]*bool{nil, new(bool), truth()})
		return &toolroom.Tool{
			ID: toolroom.ID{
				Namespace: rapid.SampledFrom([]string{"a", "b", "file"}).Draw(t, "namespace"),
				Name:      rapid.SampledFrom([]string{"x", "y", "xy", "read"}).Draw(t, "name"),
			},
			Hints:  toolroom.Hints{ReadOnly: hint.Draw(t, "read-only"), Destructive: hint.Draw(t, "destructive")},
			Tags:   rapid.SampledFrom([][]string{nil, {"beta"}}).Draw(t, "tags"),
			Source: rapid.SampledFrom([]toolroom.SourceKind{toolroom.SourceGo, toolroom.SourceMCP}).Draw(t, "source"),
		}
	})
)

func truth() *bool {
	yes := true
	return &yes
}

func mustCompile(t *rapid.T, c Config) *Policy {
	l, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDenyAlwaysWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tool := drawConfig.Draw(t, "config"), drawTool.Draw(t, "tool")
		deny := "source:" + string(tool.Source)
		who := toolroom.Identity{Subject: "one", Agent: "one", Provider: "one"}
		add := func(layers map[string]Rules) map[string]Rules {
			rules := layers["one"]
			rules.Deny = append([]string{deny}, rules.Deny...)
			return map[string]Rules{"one": rules}
		}
		switch rapid.IntRange(0, 3).Draw(t, "layer") {
		case 0:
			c.Deny = append([]string{deny}, c.Deny...)
		case 1:
			c.Agents = add(c.Agents)
		case 2:
			c.Providers = add(c.Providers)
		case 3:
			c.Identities = add(c.Identities)
		}
		if got := decide(mustCompile(t, c), tool, who); got.Effect != toolroom.VerdictDeny {
			t.Fatalf("%s is denied by %s, yet: %+v", tool.ID, deny, got)
		}
	})
}

func TestNamingAnAgentNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tool, who := drawConfig.Draw(t, "config"), drawTool.Draw(t, "tool"), drawWho.Draw(t, "who")
		fewer, unnamed := c, who
		switch rapid.IntRange(0, 2).Draw(t, "layer") {
		case 0:
			unnamed.Agent = ""
		case 1:
			unnamed.Provider = ""
		case 2:
			fewer.Identities = maps.Clone(c.Identities)
			delete(fewer.Identities, who.Key())
		}
		before, after := decide(mustCompile(t, fewer), tool, unnamed), decide(mustCompile(t, c), tool, who)
		if stricter(before.Effect, after.Effect) {
			t.Fatalf("%s was %+v, and with one layer more %+v", tool.ID, before, after)
		}
	})
}

func BenchmarkDecideWithHundredRules(b *testing.B) {
	var r Rules
	for i := range 50 {
		r.Deny = append(r.Deny, fmt.Sprintf("server%d:delete_*", i))
		r.Allow = append(r.Allow, fmt.Sprintf("server%d.*", i))
	}
	r.Profile = ProfileMinimal
	l := compile(b, Config{Rules: r, Agents: map[string]Rules{"fast": {Deny: []string{"hint:destructive"}}}})
	t := tool("server49:read")
	t.Hints.ReadOnly = truth()
	who := toolroom.Identity{Agent: "fast"}
	b.ReportAllocs()
	for b.Loop() {
		if decide(l, t, who).Effect != toolroom.VerdictAllow {
			b.Fatal("denied")
		}
	}
}

package cedar

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	cedar "github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// Tests that share generators do not run in parallel: rapid names them lazily,
// without a lock.
var (
	drawPattern = rapid.SampledFrom([]string{
		"*", "a.*", "b.*", "a.x", "b:y", "*:x", "*:*y", "mcp:a:*", "mcp:*:y", "group:g", "group:fs", "group:none",
		"hint:destructive", "hint:read_only", "tag:beta", "source:mcp", "source:go",
	})
	drawPatterns = rapid.SliceOfN(drawPattern, 0, 3)
	drawRules    = rapid.Custom(func(t *rapid.T) policy.Rules {
		return policy.Rules{
			Profile: rapid.SampledFrom([]string{"", "", "full", "minimal", "p"}).Draw(t, "profile"),
			Allow:   drawPatterns.Draw(t, "allow"), Deny: drawPatterns.Draw(t, "deny"), Confirm: drawPatterns.Draw(t, "confirm"),
			Autonomy: rapid.SampledFrom([]policy.Autonomy{"", "", policy.Conservative, policy.Standard, policy.Autonomous}).Draw(t, "autonomy"),
		}
	})
	drawNamed  = rapid.MapOfN(rapid.SampledFrom([]string{"one", `tw"o`}), drawRules, 0, 2)
	drawSkills = rapid.MapOfN(rapid.SampledFrom([]string{"one", "two"}), rapid.Custom(func(t *rapid.T) policy.Skill {
		if rapid.Bool().Draw(t, "no manifest") {
			return policy.Skill{}
		}
		tools := drawPatterns.Draw(t, "tools")
		return policy.Skill{Permissions: &policy.Permissions{
			Tools: &tools, ExecutionEnvironment: rapid.SampledFrom([]string{"", "process", "gvisor"}).Draw(t, "environment"),
		}}
	}), 0, 2)
	drawConfig = rapid.Custom(func(t *rapid.T) policy.Config {
		return policy.Config{
			Rules:  drawRules.Draw(t, "global"),
			Agents: drawNamed.Draw(t, "agents"), Providers: drawNamed.Draw(t, "providers"), Identities: drawNamed.Draw(t, "identities"),
			Sets:     drawNamed.Draw(t, "sets"),
			Skills:   drawSkills.Draw(t, "skills"),
			Profiles: map[string][]string{"p": drawPatterns.Draw(t, "profile p")},
			Groups:   map[string][]string{"g": {"a.x", "b.*"}, "none": {}},
			Denylist: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Denial { return policy.Denial{Tool: drawPattern.Draw(t, "tool")} }), 0, 1).Draw(t, "denylist"),
			Hooks: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Hook {
				return policy.Hook{Tool: drawPattern.Draw(t, "tool"), Action: rapid.SampledFrom([]policy.Action{"confirm", "log", "silent"}).Draw(t, "action")}
			}), 0, 3).Draw(t, "hooks"),
		}
	})
	drawWho = rapid.Custom(func(t *rapid.T) toolroom.Identity {
		name := rapid.SampledFrom([]string{"", "one", "two", `tw"o`})
		return toolroom.Identity{
			Subject: name.Draw(t, "subject"), Agent: name.Draw(t, "agent"), Provider: name.Draw(t, "provider"), Skill: name.Draw(t, "skill"), Set: name.Draw(t, "set"),
			Groups: rapid.SampledFrom([][]string{nil, {"dev"}}).Draw(t, "teams"),
		}
	})
	drawTool = rapid.Custom(func(t *rapid.T) *toolroom.Tool {
		yes := true
		hint := rapid.SampledFrom([]*bool{nil, new(bool), &yes})
		return &toolroom.Tool{
			ID: toolroom.ID{
				Namespace: rapid.SampledFrom([]string{"a", "b", "file", "shell"}).Draw(t, "namespace"),
				Name:      rapid.SampledFrom([]string{"x", "y", "xy", "read", "exec"}).Draw(t, "name"),
			},
			Hints:  toolroom.Hints{ReadOnly: hint.Draw(t, "read-only"), Destructive: hint.Draw(t, "destructive")},
			Tags:   rapid.SampledFrom([][]string{nil, {"beta"}}).Draw(t, "tags"),
			Source: rapid.SampledFrom([]toolroom.SourceKind{toolroom.SourceGo, toolroom.SourceMCP}).Draw(t, "source"),
		}
	})
)

func TestLayersShownAsCedarDecideAsTheLayersDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig.Draw(t, "config")
		layers, err := policy.Compile(c)
		if err != nil {
			t.Fatal(err)
		}
		text := Show(c, nil)
		rules, err := Compile([]Text{{Name: "shown.cedar", Body: []byte(text)}}, Options{DenyByDefault: true, Groups: c.GroupPatterns()})
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		for range 4 {
			tool, who := drawTool.Draw(t, "tool"), drawWho.Draw(t, "who")
			want := layers.Decide(context.Background(), policy.Request{Tool: tool, Who: who, Call: &policy.Context{}})
			got := rules.View(tool, who).Decide(with(`{}`))
			if got.Effect != want.Effect || got.Effect != toolroom.VerdictDeny && got.Isolation != want.Isolation {
				t.Fatalf("%s for %+v: the layers say %+v, their Cedar %+v\n%s", tool.ID, who, want, got, text)
			}
		}
	})
}

var drawCondition = rapid.SampledFrom([]string{
	`resource.id == "a:x"`, `resource.namespace like "f*"`, `resource.destructive`, `resource in Tag::"beta"`, `resource.tags.contains("beta")`,
	`principal.agent == "one"`, `principal in Team::"dev"`,
	`context.arguments.x == 1`, `context.arguments has y`, `context.arguments.y like "b*"`, `context.surface == "mcp"`,
	`context.taint.contains("untrusted")`, `context.budget.calls > 2`, `context.effects.known`, `context.hour == 7`,
	`(context.surface == "cli" || resource.id == "b:y")`, `!(context.arguments.x == 2)`, `false`,
})

const isolates = `@isolation("gvisor") ` // which no forbid may have

var drawRule = rapid.Custom(func(t *rapid.T) string {
	var b strings.Builder
	effect, annotations := rapid.SampledFrom([]string{"permit", "forbid"}).Draw(t, "effect"), []string{"", "", "", `@outcome("confirm") `}
	if effect == "permit" {
		annotations = append(annotations, isolates)
	}
	b.WriteString(rapid.SampledFrom(annotations).Draw(t, "annotation") + effect + "(")
	b.WriteString(rapid.SampledFrom([]string{"principal", `principal == Identity::"one"`, `principal in Team::"dev"`}).Draw(t, "principal"))
	b.WriteString(", action, " + rapid.SampledFrom([]string{"resource", `resource == Tool::"a:x"`, `resource in Namespace::"b"`}).Draw(t, "resource") + ")")
	for _, word := range []string{"when", "unless"} {
		if parts := rapid.SliceOfN(drawCondition, 0, 3).Draw(t, word); len(parts) > 0 {
			fmt.Fprintf(&b, "\n%s { %s }", word, strings.Join(parts, " && "))
		}
	}
	return b.String() + ";\n"
})

// naive evaluates every rule anew for every call. One that fails is no match
// where what does not depend on the call rules it out.
func naive(r *Rules, tool *toolroom.Tool, who toolroom.Identity, call *policy.Context) toolroom.PolicyStep {
	all := map[string]bool{}
	for _, one := range r.rules {
		maps.Copy(all, one.members)
	}
	record, err := r.contextRecord(call, all)
	if err != nil {
		panic(err)
	}
	s := r.subject(tool, who)
	var matches []match
	for _, one := range r.rules {
		list := cedar.PolicyMap{"p": one.policy}
		_, diagnostic := cedar.Authorize(list, s, s.request(record))
		for range diagnostic.Reasons {
			matches = append(matches, match{one, ""})
		}
		for _, e := range diagnostic.Errors {
			if one.scope != nil {
				_, scope := cedar.Authorize(cedar.PolicyMap{"p": one.scope}, s, s.request(cedar.Record{}))
				if len(scope.Reasons)+len(scope.Errors) == 0 {
					continue
				}
			}
			matches = append(matches, match{one, e.Message})
		}
	}
	return r.conclude(matches, false)
}

func TestWhatIsPreparedDecidesAsAWholeEvaluation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(drawRule, 1, 6).Draw(t, "rules"), "")
		rules, err := Compile([]Text{{Name: "r", Body: []byte(text)}}, Options{DenyByDefault: rapid.Bool().Draw(t, "deny")})
		if err != nil {
			t.Fatal(err)
		}
		tool, who := drawTool.Draw(t, "tool"), drawWho.Draw(t, "who")
		view := rules.View(tool, who)
		for _, arguments := range []string{`{}`, `{"x":1}`, `{"x":2,"y":"bc"}`, `{"x":"1","y":2}`} {
			want, got := naive(rules, tool, who, with(arguments)), view.Decide(with(arguments))
			if got.Effect != want.Effect || got.Isolation != want.Isolation {
				t.Fatalf("%s: prepared %+v, whole %+v\n%s", arguments, got, want, text)
			}
			if list := view.Decide(nil); list.Effect == toolroom.VerdictDeny && got.Effect != toolroom.VerdictDeny {
				t.Fatalf("a list hides what a call may use: %+v, %+v\n%s", list, got, text)
			}
		}
	})
}

func TestAnotherForbidNeverWidens(t *testing.T) {
	width := map[toolroom.Verdict]int{toolroom.VerdictDeny: 0, toolroom.VerdictConfirm: 1, toolroom.VerdictAllow: 2}
	rapid.Check(t, func(t *rapid.T) {
		rules := rapid.SliceOfN(drawRule, 1, 5).Draw(t, "rules")
		more := append(rules[:len(rules):len(rules)], strings.NewReplacer(isolates, "", "permit(", "forbid(").Replace(drawRule.Draw(t, "another")))
		deny := rapid.Bool().Draw(t, "deny")
		tool, who := drawTool.Draw(t, "tool"), drawWho.Draw(t, "who")
		var steps []toolroom.PolicyStep
		for _, list := range [][]string{rules, more} {
			r, err := Compile([]Text{{Name: "r", Body: []byte(strings.Join(list, ""))}}, Options{DenyByDefault: deny})
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, r.View(tool, who).Decide(with(`{"x":1}`)))
		}
		if width[steps[1].Effect] > width[steps[0].Effect] || !policy.AtLeast(steps[1].Isolation, steps[0].Isolation) {
			t.Fatalf("%+v, and with one more %+v\n%s", steps[0], steps[1], strings.Join(more, ""))
		}
	})
}

func FuzzRulesAreCompiledOrRefusedWithTheirPlace(f *testing.F) {
	for _, unit := range []string{`(`, `!`, `-`, `[`, `{a: `, `if a then `, `[1].contains(`} { // nested deep
		f.Add("forbid(principal, action, resource) when { " + strings.Repeat(unit, 20_000))
	}
	f.Add(`permit(principal, action, resource);`)
	f.Add("@id(\"a\")\nforbid(principal in Team::\"x\", action, resource is Tool) when { context.arguments.a.b.c == [1, {x: 2}] };")
	f.Add(`forbid(principal, action, resource) unless { if context.hour > 3 then true else resource.tags.containsAny(["a"]) };`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Compile([]Text{{Name: "f.cedar", Body: []byte(text)}}, Options{})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.cedar:") {
				t.Errorf("no place: %v", err)
			}
			return
		}
		r.View(shell(), toolroom.Identity{Subject: "ann"}).Decide(with(`{"a":{"b":1}}`))
	})
}

package policy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// model is the resolution as the reference's page words it, over sets of tools:
// a second opinion that shares no code with Decide but the patterns.
type model struct {
	config Config
	tools  []*toolroom.Tool
}

func (m model) set(patterns []string) map[*toolroom.Tool]bool {
	out := map[*toolroom.Tool]bool{}
	for _, text := range patterns {
		p, err := ParsePattern(text, m.config.AllGroups())
		if err != nil {
			panic(err)
		}
		for _, t := range m.tools {
			if p.Matches(t) {
				out[t] = true
			}
		}
	}
	return out
}

func (m model) resolve(r Rules, global bool) map[*toolroom.Tool]bool {
	profile := r.Profile
	if profile == "" && (global || len(r.Allow) == 0) {
		profile = ProfileFull
	}
	permitted := m.set(m.config.AllProfiles()[profile])
	for t := range m.set(r.Allow) {
		permitted[t] = true
	}
	for t := range m.set(r.Deny) {
		delete(permitted, t)
	}
	return permitted
}

// permits is the whole resolution for one caller.
func (m model) permits(t *toolroom.Tool, who toolroom.Identity) bool {
	sets := []map[*toolroom.Tool]bool{m.resolve(m.config.Rules, true)}
	for _, narrow := range []struct {
		by   map[string]Rules
		name string
	}{{m.config.Agents, who.Agent}, {m.config.Providers, who.Provider}, {m.config.Identities, who.Key()}} {
		if r, ok := narrow.by[narrow.name]; ok {
			sets = append(sets, m.resolve(r, false))
		}
	}
	for name, by := range map[string]map[string]Rules{who.Agent: m.config.Agents, who.Provider + "/": m.config.Providers} {
		name = strings.TrimSuffix(name, "/")
		if _, ok := by[name]; !ok && name != "" { // an unknown one has the least of all
			for _, r := range by {
				sets = append(sets, m.resolve(r, false))
			}
		}
	}
	if who.Skill != "" {
		var patterns []string
		if p := m.config.Skills[who.Skill].Permissions; p != nil {
			for _, group := range p.ToolGroups {
				patterns = append(patterns, "group:"+group)
			}
			if p.Tools != nil {
				patterns = *p.Tools
			}
		}
		sets = append(sets, m.set(patterns))
	}
	return !slices.ContainsFunc(sets, func(s map[*toolroom.Tool]bool) bool { return !s[t] })
}

var (
	drawSkills = rapid.MapOfN(rapid.SampledFrom([]string{"one", "two"}), rapid.Custom(func(t *rapid.T) Skill {
		if rapid.Bool().Draw(t, "no manifest") {
			return Skill{}
		}
		p := &Permissions{ToolGroups: rapid.SliceOfN(rapid.SampledFrom([]string{"g", "fs"}), 0, 2).Draw(t, "groups")}
		if rapid.Bool().Draw(t, "names tools") {
			tools := drawPatterns.Draw(t, "tools")
			p.Tools = &tools
		}
		return Skill{Permissions: p}
	}), 0, 2)
	drawActor = rapid.Custom(func(t *rapid.T) toolroom.Identity {
		who := drawWho.Draw(t, "who")
		who.Skill = rapid.SampledFrom([]string{"", "", "one", "two", "three"}).Draw(t, "skill")
		return who
	})
	drawWhole = rapid.Custom(func(t *rapid.T) Config {
		c := drawConfig.Draw(t, "config")
		c.Skills = drawSkills.Draw(t, "skills")
		c.Autonomy = rapid.SampledFrom([]Autonomy{"", Conservative, Standard, Autonomous}).Draw(t, "autonomy")
		c.Hooks = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Hook {
			return Hook{drawPattern.Draw(t, "tool"), rapid.SampledFrom([]Action{ActionConfirm, ActionLog, ActionSilent}).Draw(t, "action")}
		}), 0, 3).Draw(t, "hooks")
		c.Denylist = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Denial {
			return Denial{Tool: drawPattern.Draw(t, "tool"), ArgsPattern: rapid.SampledFrom([]string{"", "bad", "worse"}).Draw(t, "args")}
		}), 0, 2).Draw(t, "denylist")
		c.Sensitive = Sensitive{Tools: drawPatterns.Draw(t, "sensitive"), Mode: rapid.SampledFrom([]string{"", DenyWithoutElevation, ConfirmWithoutElevation}).Draw(t, "mode")}
		return c
	})
	drawCall = rapid.Custom(func(t *rapid.T) *Context {
		text := rapid.SampledFrom([]string{`{}`, `{"x":"bad"}`, `{"x":["worse","bad"]}`, `{"x":1}`}).Draw(t, "arguments")
		return &Context{Arguments: func() (any, error) { return jsonx.Decode([]byte(text), jsonx.Limits{}) }}
	})
)

func TestLayersAgreeWithTheWordsOfTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig.Draw(t, "config")
		c.Skills = drawSkills.Draw(t, "skills")
		m := model{config: c, tools: rapid.SliceOfN(drawTool, 1, 6).Draw(t, "tools")}
		p := mustCompile(t, c)
		for range 3 {
			tool, who := rapid.SampledFrom(m.tools).Draw(t, "tool"), drawActor.Draw(t, "who")
			got := decide(p, tool, who)
			if want := m.permits(tool, who); (got.Effect != toolroom.VerdictDeny) != want {
				t.Fatalf("%s for %+v: %+v, and the model permits it: %v", tool.ID, who, got, want)
			}
			seen := p.Decide(context.Background(), Request{Tool: tool, Who: who})
			if seen.Effect != got.Effect || seen.Rule != got.Rule {
				t.Fatalf("a list says %+v, a call %+v", seen, got)
			}
		}
	})
}

// A part of the config, or a skill, is taken away one at a time.
func TestTakingAnythingAwayNeverNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, tool, who, call := drawWhole.Draw(t, "config"), drawTool.Draw(t, "tool"), drawActor.Draw(t, "who"), drawCall.Draw(t, "call")
		c.Autonomy = "" // no layer: a level may widen what hooks ask
		fewer := c
		switch rapid.IntRange(0, 3).Draw(t, "part") {
		case 0:
			fewer.Denylist = nil
		case 1:
			fewer.Sensitive = Sensitive{}
		case 2:
			fewer.Confirm = nil
		case 3:
			who.Skill = ""
			before := decideCall(mustCompile(t, c), tool, who, call)
			who.Skill = "one"
			if after := decideCall(mustCompile(t, c), tool, who, call); stricter(before.Effect, after.Effect) {
				t.Fatalf("a skill widens %+v to %+v", before, after)
			}
			return
		}
		with, without := decideCall(mustCompile(t, c), tool, who, call), decideCall(mustCompile(t, fewer), tool, who, call)
		if stricter(without.Effect, with.Effect) {
			t.Fatalf("%s is %+v, and with less in the way %+v", tool.ID, with, without)
		}
	})
}

func decideCall(p *Policy, t *toolroom.Tool, who toolroom.Identity, call *Context) Decision {
	return p.Decide(context.Background(), Request{Tool: t, Who: who, Call: call})
}

func TestTheStepsExplainTheDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := mustCompile(t, drawWhole.Draw(t, "config"))
		tool, who, call := drawTool.Draw(t, "tool"), drawActor.Draw(t, "who"), drawCall.Draw(t, "call")
		if rapid.Bool().Draw(t, "elevated") {
			p = p.WithElevations(elevations{{Subject: "one", By: "olga", Expires: time.Now().Add(time.Hour)}})
		}
		got := decideCall(p, tool, who, call)
		// The first of the narrowest decides.
		at := 0
		for i, s := range got.Steps {
			if stricter(s.Effect, got.Steps[at].Effect) {
				at = i
			}
		}
		if len(got.Steps) == 0 || got.Effect != got.Steps[at].Effect || got.Rule != got.Steps[at].Rule || got.Rule == "" {
			t.Fatalf("%+v", got)
		}
		// What a list shows may be denied to a call, never the other way about.
		if seen := p.Decide(context.Background(), Request{Tool: tool, Who: who}); seen.Effect == toolroom.VerdictDeny && got.Effect != toolroom.VerdictDeny {
			t.Fatalf("a list hides what a call may use: %+v, %+v", seen, got)
		}
	})
}

// elevations are those in force.
type elevations []Elevation

func (e elevations) Elevations(_ context.Context, subject string, _ time.Time) ([]*Elevation, error) {
	var out []*Elevation
	for i := range e {
		if subject == e[i].Subject {
			out = append(out, &e[i])
		}
	}
	return out, nil
}

func TestAnElevationIsForItsOwnerItsToolsAndItsTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ann := toolroom.Identity{Subject: "ann", Agent: "coder"}
	for name, tt := range map[string]struct {
		held ElevationLookup
		who  toolroom.Identity
		want toolroom.Verdict
	}{
		"none":                {nil, ann, toolroom.VerdictDeny},
		"for everything":      {elevations{{Subject: "ann", Expires: now.Add(1)}}, ann, toolroom.VerdictAllow},
		"over":                {elevations{{Subject: "ann", Expires: now}}, ann, toolroom.VerdictDeny},
		"taken back":          {elevations{{Subject: "ann", Expires: now.Add(1), Ended: now}}, ann, toolroom.VerdictDeny},
		"for another tool":    {elevations{{Subject: "ann", Tools: []string{"x.*"}, Expires: now.Add(1)}}, ann, toolroom.VerdictDeny},
		"for this tool":       {elevations{{Subject: "ann", Tools: []string{"x.*", "shell.exec"}, Expires: now.Add(1)}}, ann, toolroom.VerdictAllow},
		"of another":          {elevations{{Subject: "bob", Expires: now.Add(1)}}, ann, toolroom.VerdictDeny},
		"for this agent":      {elevations{{Subject: "ann", Agent: "coder", Expires: now.Add(1)}}, ann, toolroom.VerdictAllow},
		"for another agent":   {elevations{{Subject: "ann", Agent: "x", Expires: now.Add(1)}}, ann, toolroom.VerdictDeny},
		"of the operator":     {elevations{{Subject: "local", Expires: now.Add(1)}}, toolroom.Identity{}, toolroom.VerdictAllow},
		"that cannot be read": {broken{}, ann, toolroom.VerdictDeny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := compile(t, Config{Sensitive: Sensitive{Tools: []string{"shell.*"}}})
			p = p.With(Parts{Elevations: tt.held, Now: func() time.Time { return now }})
			got := decide(p, tool("shell:exec"), tt.who)
			if got.Effect != tt.want {
				t.Errorf("%+v", got)
			}
			if got.Effect == toolroom.VerdictDeny && !strings.Contains(got.CLIHint, "toolroom policy elevate "+tt.who.Key()) {
				t.Errorf("no next step: %q", got.CLIHint)
			}
			if other := decide(p, tool("web:fetch"), tt.who); other.Effect != toolroom.VerdictAllow {
				t.Errorf("a tool that is not sensitive: %+v", other)
			}
		})
	}
}

type broken struct{}

func (broken) Elevations(context.Context, string, time.Time) ([]*Elevation, error) {
	return nil, errors.New("the disk is gone")
}

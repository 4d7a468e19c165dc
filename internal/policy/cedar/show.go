package cedar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/policy"
)

// Show returns a policy as Cedar: its layers, and after them the written rules as
// they stand. What has no form in Cedar is a comment.
func Show(c policy.Config, rules *Rules) string {
	s := shower{config: c}
	s.comment("What deny, confirm, hooks and the denylist name, they also catch under an alias and in other case.")
	if rules != nil && rules.o.DenyByDefault {
		s.comment("policy.default is deny: a rule has to permit each call.")
	} else {
		s.rule("tools", "", "permit", "", "")
	}
	s.layer("tools", "", c.Rules)
	for _, group := range []struct {
		key, attribute string
		layers         map[string]policy.Rules
	}{{"agents", "principal.agent", c.Agents}, {"providers", "principal.provider", c.Providers}} {
		for _, name := range slices.Sorted(maps.Keys(group.layers)) {
			s.layer("tools."+group.key+"."+name, namesOrUnknown(group.attribute, name, group.layers), group.layers[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Identities)) {
		s.layer("tools.identities."+name, "principal == Identity::"+quote(name), c.Identities[name])
	}
	s.sets()
	s.skills()
	s.denylist()
	s.sensitive()
	s.hooks()
	if rules != nil {
		for _, text := range rules.texts {
			s.b.WriteString("\n// " + text.Name + "\n" + strings.TrimSpace(string(text.Body)) + "\n")
		}
	}
	return s.b.String()
}

// namesOrUnknown is the condition that a caller names name, or one that is not configured:
// then it gets the least of all.
func namesOrUnknown(attribute, name string, layers map[string]policy.Rules) string {
	known := []string{quote("")}
	for _, other := range slices.Sorted(maps.Keys(layers)) {
		known = append(known, quote(other))
	}
	return "(" + attribute + " == " + quote(name) + " || ![" + strings.Join(known, ", ") + "].contains(" + attribute + "))"
}

type shower struct {
	b      strings.Builder
	config policy.Config
}

func quote(text string) string { return strconv.Quote(text) }

func (s *shower) comment(text string) {
	s.b.WriteString("// " + strings.ReplaceAll(text, "\n", "\n// ") + "\n")
}

// rule writes one policy; when and unless may be empty.
func (s *shower) rule(id, outcome, effect, when, unless string) {
	if s.b.Len() > 0 {
		s.b.WriteByte('\n')
	}
	s.b.WriteString("@id(" + quote(id) + ")\n")
	if outcome != "" {
		s.b.WriteString(outcome + "\n")
	}
	s.b.WriteString(effect + " (principal, action, resource)")
	if when != "" {
		s.b.WriteString("\nwhen { " + when + " }")
	}
	if unless != "" {
		s.b.WriteString("\nunless { " + unless + " }")
	}
	s.b.WriteString(";\n")
}

func and(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	if len(parts) > 1 {
		for i, p := range parts {
			if strings.Contains(p, " || ") {
				parts[i] = "(" + p + ")"
			}
		}
	}
	return strings.Join(parts, " && ")
}

func (s *shower) any(patterns []string) string {
	conditions := make([]string, len(patterns))
	for i, text := range patterns {
		conditions[i] = s.condition(text)
	}
	if len(conditions) == 0 {
		return "false"
	}
	if len(conditions) > 3 {
		return strings.Join(conditions, "\n  || ")
	}
	return strings.Join(conditions, " || ")
}

// condition is a pattern as Cedar. Patterns of a checked config are right.
func (s *shower) condition(text string) string {
	p, err := policy.ParsePattern(text, s.config.AllGroups())
	if err != nil {
		return "false"
	}
	return p.Cedar()
}

func (s *shower) layer(path, whose string, r policy.Rules) {
	for i, text := range r.Deny {
		if id := fmt.Sprintf("%s.deny[%d]", path, i); !s.aboutEffects(id, text) {
			s.rule(id, "", "forbid", and(whose, s.condition(text)), "")
		}
	}
	if r.Profile != "" || path != "tools" && len(r.Allow) > 0 {
		id := path + ".allow"
		permitted := slices.Clone(r.Allow)
		if r.Profile != "" {
			id = path + ".profile: " + r.Profile
			permitted = append(permitted, s.config.AllProfiles()[r.Profile]...)
		}
		s.rule(id, "", "forbid", whose, s.any(permitted))
	}
	for i, text := range r.Confirm {
		if id := fmt.Sprintf("%s.confirm[%d]", path, i); !s.aboutEffects(id, text) {
			s.rule(id, `@outcome("confirm")`, "permit", and(whose, s.condition(text)), "")
		}
	}
}

// aboutEffects notes a rule about effects, which has no form in Cedar.
func (s *shower) aboutEffects(id, text string) bool {
	if _, err := policy.ParseEffectPattern(text); err != nil {
		return false
	}
	s.comment(fmt.Sprintf("%s: %q is judged at each call, by what the call would do.", id, text))
	return true
}

func (s *shower) sets() {
	known := []string{`principal.set == ""`}
	for _, name := range slices.Sorted(maps.Keys(s.config.Sets)) {
		whose := "principal.set == " + quote(name)
		known = append(known, whose)
		s.layer("sets."+name, whose, s.config.Sets[name])
	}
	s.rule("sets", "", "forbid", "", strings.Join(known, " || "))
}

func (s *shower) skills() {
	known := []string{`principal.skill == ""`}
	for _, name := range slices.Sorted(maps.Keys(s.config.Skills)) {
		path, whose := "tools.skills."+name, "principal.skill == "+quote(name)
		known = append(known, whose)
		p := s.config.Skills[name].Permissions
		if p == nil {
			s.rule(path, "", "forbid", whose, "")
			continue
		}
		var permitted []string
		if p.Tools != nil {
			permitted = *p.Tools
		} else {
			for _, group := range p.ToolGroups {
				permitted = append(permitted, "group:"+strings.TrimPrefix(group, "group:"))
			}
		}
		s.rule(path, "", "forbid", whose, s.any(permitted))
		if p.ExecutionEnvironment != "" {
			s.rule(path+".execution_environment", "@isolation("+quote(p.ExecutionEnvironment)+")", "permit", whose, "")
		}
		if len(p.FS.Read)+len(p.FS.Write)+len(p.Net)+len(p.Secrets.Scopes) > 0 {
			s.comment(path + ": files, hosts and secrets are held to its manifest where the effects of a call are known.")
		}
	}
	s.rule("tools.skills", "", "forbid", "", strings.Join(known, " || "))
}

func (s *shower) denylist() {
	for i, d := range s.config.Denylist {
		id := fmt.Sprintf("tools.immutable_denylist[%d]", i)
		if d.ArgsPattern == "" {
			s.rule(id, "", "forbid", s.condition(d.Tool), "")
			continue
		}
		s.comment(fmt.Sprintf("%s: %q is forbidden with arguments like %q. Cedar has no regular expressions.", id, d.Tool, d.ArgsPattern))
	}
}

func (s *shower) sensitive() {
	for i, text := range s.config.Sensitive.Tools {
		s.comment(fmt.Sprintf("tools.sensitive.tools[%d]: %q needs an elevation, which is looked up at each call.", i, text))
	}
}

// hooks shows the questions of hooks, which depend on the caller's autonomy.
func (s *shower) hooks() {
	conservative, asked := s.autonomy(policy.Conservative), s.autonomy(policy.Standard)
	var before []string
	for i, h := range s.config.Hooks {
		id := fmt.Sprintf("tools.hooks[%d]", i)
		switch {
		case h.Action != policy.ActionConfirm:
			s.comment(fmt.Sprintf("%s: %s %q", id, h.Action, h.Tool))
		case asked != "false":
			s.rule(id, `@outcome("confirm")`, "permit", and(s.condition(h.Tool), asked), strings.Join(before, " || "))
		}
		before = append(before, s.condition(h.Tool))
	}
	if conservative != "false" {
		s.rule("tools.autonomy: conservative", `@outcome("confirm")`, "permit", and(conservative, s.any(policy.ConservativeTools())), "")
	}
}

// autonomy is for whom the level, or a more conservative one, is in force: ""
// for all, "false" for nobody.
func (s *shower) autonomy(level policy.Autonomy) string {
	if s.config.Autonomy.AtMost(level) {
		return ""
	}
	var whose []string
	add := func(layers map[string]policy.Rules, condition func(name string) string) {
		for _, name := range slices.Sorted(maps.Keys(layers)) {
			if a := layers[name].Autonomy; a != "" && a.AtMost(level) {
				whose = append(whose, condition(name))
			}
		}
	}
	add(s.config.Agents, func(name string) string { return namesOrUnknown("principal.agent", name, s.config.Agents) })
	add(s.config.Providers, func(name string) string { return namesOrUnknown("principal.provider", name, s.config.Providers) })
	add(s.config.Sets, func(name string) string { return "principal.set == " + quote(name) })
	add(s.config.Identities, func(name string) string { return "principal == Identity::" + quote(name) })
	if len(whose) == 0 {
		return "false"
	}
	return strings.Join(whose, " || ")
}

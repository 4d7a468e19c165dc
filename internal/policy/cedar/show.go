package cedar

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/policy"
)

// Show returns a policy in Cedar: its layers, then the text of the written rules. What Cedar
// cannot express becomes a comment.
func Show(c policy.Config, rules *Rules) string {
	s := cedarWriter{config: c}
	s.writeComment("What deny, confirm, hooks and the denylist name, they also catch under an alias and in other case.")
	if rules != nil && rules.o.DenyByDefault {
		s.writeComment("policy.default is deny: a rule has to permit each call.")
	} else {
		s.writeRule("tools", "", "permit", "", "")
	}
	s.writeLayer("tools", "", c.Rules)
	for _, group := range []struct {
		key, attribute string
		layers         map[string]policy.Rules
	}{{"agents", "principal.agent", c.Agents}, {"providers", "principal.provider", c.Providers}} {
		for _, name := range slices.Sorted(maps.Keys(group.layers)) {
			s.writeLayer("tools."+group.key+"."+name, namesOrUnknown(group.attribute, name, group.layers), group.layers[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Identities)) {
		s.writeLayer("tools.identities."+name, "principal == Identity::"+quote(name), c.Identities[name])
	}
	s.writeSets()
	s.writeSkills()
	s.writeDenylist()
	s.writeSensitive()
	s.writeHooks()
	if rules != nil {
		for _, text := range rules.texts {
			s.b.WriteString("\n// " + text.Name + "\n" + strings.TrimSpace(string(text.Body)) + "\n")
		}
	}
	return s.b.String()
}

// namesOrUnknown returns the condition that the caller's attribute is name or is not configured:
// a caller that is not configured gets the restrictions of all names.
func namesOrUnknown(attribute, name string, layers map[string]policy.Rules) string {
	known := []string{quote("")}
	for _, other := range slices.Sorted(maps.Keys(layers)) {
		known = append(known, quote(other))
	}
	return "(" + attribute + " == " + quote(name) + " || ![" + strings.Join(known, ", ") + "].contains(" + attribute + "))"
}

type cedarWriter struct {
	b      strings.Builder
	config policy.Config
}

func quote(text string) string { return strconv.Quote(text) }

func (s *cedarWriter) writeComment(text string) {
	s.b.WriteString("// " + strings.ReplaceAll(text, "\n", "\n// ") + "\n")
}

// writeRule writes one policy; when and unless may be empty.
func (s *cedarWriter) writeRule(id, outcome, effect, when, unless string) {
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

func joinAnd(parts ...string) string {
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

func (s *cedarWriter) anyOf(patterns []string) string {
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

// condition returns a pattern in Cedar. The config was checked, so its patterns are valid.
func (s *cedarWriter) condition(text string) string {
	p, err := policy.ParsePattern(text, s.config.AllGroups())
	if err != nil {
		return "false"
	}
	return p.Cedar()
}

func (s *cedarWriter) writeLayer(path, whose string, r policy.Rules) {
	for i, text := range r.Deny {
		if id := fmt.Sprintf("%s.deny[%d]", path, i); !s.writeEffectRule(id, text) {
			s.writeRule(id, "", "forbid", joinAnd(whose, s.condition(text)), "")
		}
	}
	if r.Profile != "" || path != "tools" && len(r.Allow) > 0 {
		id := path + ".allow"
		permitted := slices.Clone(r.Allow)
		if r.Profile != "" {
			id = path + ".profile: " + r.Profile
			permitted = append(permitted, s.config.AllProfiles()[r.Profile]...)
		}
		s.writeRule(id, "", "forbid", whose, s.anyOf(permitted))
	}
	for i, text := range r.Confirm {
		if id := fmt.Sprintf("%s.confirm[%d]", path, i); !s.writeEffectRule(id, text) {
			s.writeRule(id, `@outcome("confirm")`, "permit", joinAnd(whose, s.condition(text)), "")
		}
	}
}

// writeEffectRule writes a comment if text is a rule about effects, which Cedar cannot express,
// and reports whether it is one.
func (s *cedarWriter) writeEffectRule(id, text string) bool {
	if _, err := policy.ParseEffectPattern(text); err != nil {
		return false
	}
	s.writeComment(fmt.Sprintf("%s: %q is judged at each call, by what the call would do.", id, text))
	return true
}

func (s *cedarWriter) writeSets() {
	known := []string{`principal.set == ""`}
	for _, name := range slices.Sorted(maps.Keys(s.config.Sets)) {
		whose := "principal.set == " + quote(name)
		known = append(known, whose)
		s.writeLayer("sets."+name, whose, s.config.Sets[name])
	}
	s.writeRule("sets", "", "forbid", "", strings.Join(known, " || "))
}

func (s *cedarWriter) writeSkills() {
	known := []string{`principal.skill == ""`}
	for _, name := range slices.Sorted(maps.Keys(s.config.Skills)) {
		path, whose := "tools.skills."+name, "principal.skill == "+quote(name)
		known = append(known, whose)
		p := s.config.Skills[name].Permissions
		if p == nil {
			s.writeRule(path, "", "forbid", whose, "")
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
		s.writeRule(path, "", "forbid", whose, s.anyOf(permitted))
		if p.ExecutionEnvironment != "" {
			s.writeRule(path+".execution_environment", "@isolation("+quote(p.ExecutionEnvironment)+")", "permit", whose, "")
		}
		if len(p.FS.Read)+len(p.FS.Write)+len(p.Net)+len(p.Secrets.Scopes) > 0 {
			s.writeComment(path + ": files, hosts and secrets are held to its manifest where the effects of a call are known.")
		}
	}
	s.writeRule("tools.skills", "", "forbid", "", strings.Join(known, " || "))
}

func (s *cedarWriter) writeDenylist() {
	for i, d := range s.config.Denylist {
		id := fmt.Sprintf("tools.immutable_denylist[%d]", i)
		if d.ArgsPattern == "" {
			s.writeRule(id, "", "forbid", s.condition(d.Tool), "")
			continue
		}
		s.writeComment(fmt.Sprintf("%s: %q is forbidden with arguments like %q. Cedar has no regular expressions.", id, d.Tool, d.ArgsPattern))
	}
}

func (s *cedarWriter) writeSensitive() {
	for i, text := range s.config.Sensitive.Tools {
		s.writeComment(fmt.Sprintf("tools.sensitive.tools[%d]: %q needs an elevation, which is looked up at each call.", i, text))
	}
}

// writeHooks writes the hooks that ask, which depend on the caller's autonomy.
func (s *cedarWriter) writeHooks() {
	conservative, asked := s.autonomyCondition(policy.Conservative), s.autonomyCondition(policy.Standard)
	var before []string
	for i, h := range s.config.Hooks {
		id := fmt.Sprintf("tools.hooks[%d]", i)
		switch {
		case h.Action != policy.ActionConfirm:
			s.writeComment(fmt.Sprintf("%s: %s %q", id, h.Action, h.Tool))
		case asked != "false":
			s.writeRule(id, `@outcome("confirm")`, "permit", joinAnd(s.condition(h.Tool), asked), strings.Join(before, " || "))
		}
		before = append(before, s.condition(h.Tool))
	}
	if conservative != "false" {
		s.writeRule("tools.autonomy: conservative", `@outcome("confirm")`, "permit", joinAnd(conservative, s.anyOf(policy.ConservativeTools())), "")
	}
}

// autonomyCondition returns the condition that the caller's autonomy is at most level. It is ""
// if all callers meet it, and "false" if none does.
func (s *cedarWriter) autonomyCondition(level policy.Autonomy) string {
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

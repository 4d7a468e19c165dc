package policy

import (
	"maps"
	"strconv"
	"strings"
)

// AllGroups returns the built-in groups and those of c: patterns by name.
func (c Config) AllGroups() map[string][]string {
	all := builtinGroups()
	maps.Copy(all, c.Groups)
	return all
}

// AllProfiles returns the built-in profiles and those of c: patterns by name.
func (c Config) AllProfiles() map[string][]string {
	all := builtinProfiles()
	maps.Copy(all, c.Profiles)
	return all
}

// GroupPatterns returns all groups, each as one pattern. It omits an invalid group: Compile
// reports it.
func (c Config) GroupPatterns() map[string]Pattern {
	all := c.AllGroups()
	patterns := make(map[string]Pattern, len(all))
	for name := range all {
		if p, err := ParsePattern("group:"+name, all); err == nil {
			patterns[name] = p
		}
	}
	return patterns
}

// Cedar returns the pattern as a condition in Cedar, for the schema of package cedar. The
// condition is true if [Pattern.Matches] is.
func (p Pattern) Cedar() string {
	switch {
	case len(p.any) > 0:
		members := make([]string, len(p.any))
		for i, m := range p.any {
			members[i] = m.Cedar()
		}
		return strings.Join(members, " || ")
	case p.hint != "":
		return "resource." + p.hint
	case p.tag != "":
		return "resource in Tag::" + strconv.Quote(p.tag)
	case p.kind != "":
		return "resource in Source::" + strconv.Quote(string(p.kind))
	case strings.HasPrefix(p.text, "group:"):
		return "false"
	}
	namespace, name, _ := strings.Cut(p.glob, ":")
	var parts []string
	if p.mcp {
		parts = append(parts, `resource in Source::"mcp"`)
	}
	switch {
	case p.glob == "*", namespace == "*" && name == "*":
		parts = append(parts, "true")
	case !strings.Contains(p.glob, "*"):
		parts = append(parts, "resource.id == "+strconv.Quote(p.glob))
	default:
		for _, part := range [...]struct{ attribute, glob string }{{"namespace", namespace}, {"name", name}} {
			switch {
			case part.glob == "*":
			case strings.Contains(part.glob, "*"):
				parts = append(parts, "resource."+part.attribute+" like "+strconv.Quote(part.glob))
			default:
				parts = append(parts, "resource."+part.attribute+" == "+strconv.Quote(part.glob))
			}
		}
	}
	return strings.Join(parts, " && ")
}

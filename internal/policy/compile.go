package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Compile reads a Config. The error joins every mistake, each with the key it
// is at. Skills whose manifests are files have their permissions only after
// [ReadManifests].
func Compile(c Config) (*Policy, error) {
	p := parser{profiles: c.AllProfiles(), groups: c.AllGroups()}

	compiled := &Policy{
		config:     c,
		global:     p.layer("tools", c.Rules),
		agents:     p.layers("tools.agents", c.Agents),
		providers:  p.layers("tools.providers", c.Providers),
		identities: p.layers("tools.identities", c.Identities),
		sets:       p.layers("sets", c.Sets),
		skills:     p.skills(c.Skills),
		hooks:      p.hooks(c.Hooks),
		denylist:   p.denylist(c.Denylist),
		sensitive:  p.sensitive(c.Sensitive),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p.rules("tools.profiles."+name, c.Profiles[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		p.rules("tools.groups."+name, c.Groups[name])
	}
	compiled.named = p.named
	return compiled.With(Parts{}), errors.Join(p.problems...)
}

type parser struct {
	profiles, groups map[string][]string
	problems         []error
	named            []Named
}

func (p *parser) problem(key, format string, args ...any) {
	p.problems = append(p.problems, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
}

func (p *parser) layers(path string, rules map[string]Rules) map[string]*layer {
	out := make(map[string]*layer, len(rules))
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		l := p.layer(path+"."+name, rules[name])
		out[name] = &l
	}
	return out
}

func (p *parser) rules(path string, texts []string) rules {
	var out rules
	for i, text := range texts {
		out = p.rule(out, fmt.Sprintf("%s[%d]", path, i), text)
	}
	return out
}

func (p *parser) rule(to rules, at, text string) rules {
	if pattern, ok := p.pattern(at, text); ok {
		to = append(to, rule{pattern: pattern, text: fmt.Sprintf("%s: %q", at, text)})
	}
	return to
}

func (p *parser) pattern(at, text string) (Pattern, bool) {
	pattern, err := ParsePattern(text, p.groups)
	if err != nil {
		p.problem(at, "%w", err)
	}
	// Profiles and what conservative asks before are Toolroom's own, or listed where they
	// are written.
	if _, _, names := pattern.Name(); names && at != "tools.autonomy" && !strings.Contains(at, ".profile[") {
		p.named = append(p.named, Named{at, pattern})
	}
	return pattern, err == nil
}

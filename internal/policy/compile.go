package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Compile compiles a Config. The error joins all mistakes, each a [Problem]. Call
// [ReadManifests] before, so that skills with manifest files have their permissions.
func Compile(c Config) (*Policy, error) {
	p := parser{profiles: c.AllProfiles(), groups: c.AllGroups()}

	compiled := &Policy{
		config:     c,
		global:     p.parseLayer("tools", c.Rules),
		agents:     p.parseLayers("tools.agents", c.Agents),
		providers:  p.parseLayers("tools.providers", c.Providers),
		identities: p.parseLayers("tools.identities", c.Identities),
		sets:       p.parseLayers("sets", c.Sets),
		skills:     p.parseSkills(c.Skills),
		hooks:      p.parseHooks(c.Hooks),
		denylist:   p.parseDenylist(c.Denylist),
		sensitive:  p.parseSensitive(c.Sensitive),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p.parseRules("tools.profiles."+name, c.Profiles[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		p.parseRules("tools.groups."+name, c.Groups[name])
	}
	compiled.namedPatterns = p.namedPatterns
	return compiled.With(Parts{}), errors.Join(p.problems...)
}

type parser struct {
	profiles, groups map[string][]string
	problems         []error
	namedPatterns    []NamedPattern
}

// Problem is a mistake in a [Config] at a key.
type Problem struct {
	Key string
	Err error
}

func (p *Problem) Error() string { return p.Key + ": " + p.Err.Error() }

func (p *Problem) Unwrap() error { return p.Err }

func (p *parser) addProblem(key, format string, args ...any) {
	p.problems = append(p.problems, &Problem{key, fmt.Errorf(format, args...)})
}

func (p *parser) parseLayers(path string, rules map[string]Rules) map[string]*layer {
	out := make(map[string]*layer, len(rules))
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		l := p.parseLayer(path+"."+name, rules[name])
		out[name] = &l
	}
	return out
}

func (p *parser) parseRules(path string, texts []string) rules {
	var out rules
	for i, text := range texts {
		out = p.appendRule(out, fmt.Sprintf("%s[%d]", path, i), text)
	}
	return out
}

func (p *parser) appendRule(to rules, at, text string) rules {
	if pattern, ok := p.parsePattern(at, text); ok {
		to = append(to, rule{pattern: pattern, text: fmt.Sprintf("%s: %q", at, text)})
	}
	return to
}

func (p *parser) parsePattern(at, text string) (Pattern, bool) {
	pattern, err := ParsePattern(text, p.groups)
	if err != nil {
		p.addProblem(at, "%w", err)
	}
	// The patterns of profiles and of conservative are built in or listed at their own key.
	if _, _, names := pattern.NameGlobs(); names && at != "tools.autonomy" && !strings.Contains(at, ".profile[") {
		p.namedPatterns = append(p.namedPatterns, NamedPattern{at, pattern})
	}
	return pattern, err == nil
}

package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
)

// Rules is one layer as toolroom.yaml writes it.
type Rules struct {
	// Profile is the base: minimal, messaging, coding, full (the default) or
	// one of Config.Profiles.
	Profile string `yaml:"profile" json:"profile,omitempty"`
	// Allow adds to the profile, Deny takes away; deny always wins.
	Allow []string `yaml:"allow" json:"allow,omitempty"`
	Deny  []string `yaml:"deny" json:"deny,omitempty"`
	// Confirm asks a person before these tools run.
	Confirm []string `yaml:"confirm" json:"confirm,omitempty"`
}

// Config is the section "tools" of toolroom.yaml.
type Config struct {
	Rules `yaml:",inline"`
	// Agents, Providers and Identities narrow what the rules above permit, for
	// callers of that name.
	Agents     map[string]Rules `yaml:"agents" json:"agents,omitempty"`
	Providers  map[string]Rules `yaml:"providers" json:"providers,omitempty"`
	Identities map[string]Rules `yaml:"identities" json:"identities,omitempty"`
	// Profiles and Groups are named sets of patterns of your own.
	Profiles map[string][]string `yaml:"profiles" json:"profiles,omitempty"`
	Groups   map[string][]string `yaml:"groups" json:"groups,omitempty"`
}

// Layers is a compiled Config: an immutable [Decider].
type Layers struct {
	global     layer
	agents     map[string]*layer
	providers  map[string]*layer
	identities map[string]*layer
}

// layer is one set of Rules, with the text of every rule made beforehand: a
// decision is on the hot path.
type layer struct {
	path    string
	profile rules
	// closed layers permit only what profile or allow name.
	closed               bool
	allow, deny, confirm rules
	// open and shut are the rules that decide when no pattern does.
	open, shut string
}

type rules []rule

type rule struct {
	pattern Pattern
	effect  *EffectPattern // in place of pattern
	text    string
}

// match is the text of the first rule that selects the tool, or a call of it
// with these effects, and which of them is the reason.
func (r rules) match(t *toolroom.Tool, effects []toolroom.Effect) (text string, because toolroom.Effect, ok bool) {
	for i := range r {
		if because, ok := r[i].selects(t, effects); ok {
			return r[i].text, because, true
		}
	}
	return "", because, false
}

// Compile reads a Config. The error joins every mistake, each with the key it
// is at.
func Compile(c Config) (*Layers, error) {
	profiles := builtinProfiles()
	maps.Copy(profiles, c.Profiles)
	groups := builtinGroups()
	maps.Copy(groups, c.Groups)
	p := parser{profiles: profiles, groups: groups}

	l := &Layers{global: p.layer("tools", c.Rules)}
	l.agents = p.layers("tools.agents", c.Agents)
	l.providers = p.layers("tools.providers", c.Providers)
	l.identities = p.layers("tools.identities", c.Identities)
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p.rules("tools.profiles."+name, c.Profiles[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Groups)) {
		p.rules("tools.groups."+name, c.Groups[name])
	}
	return l, errors.Join(p.problems...)
}

type parser struct {
	profiles, groups map[string][]string
	problems         []error
}

func (p *parser) layers(path string, rules map[string]Rules) map[string]*layer {
	out := make(map[string]*layer, len(rules))
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		l := p.layer(path+"."+name, rules[name])
		out[name] = &l
	}
	return out
}

func (p *parser) layer(path string, r Rules) layer {
	l := layer{
		path:    path,
		allow:   p.rules(path+".allow", r.Allow),
		deny:    p.restrictions(path+".deny", r.Deny),
		confirm: p.restrictions(path+".confirm", r.Confirm),
		// An override that names tools narrows to them; the global layer
		// without a profile has the profile full.
		closed: r.Profile != "" || path != "tools" && len(r.Allow) > 0,
		open:   path + ": no profile",
		shut:   path + ": its allow list does not have it",
	}
	if r.Profile == "" {
		return l
	}
	l.shut = fmt.Sprintf("%s: neither its profile %q nor its allow list has it", path, r.Profile)
	patterns, ok := p.profiles[r.Profile]
	if !ok {
		p.problems = append(p.problems, fmt.Errorf("%s.profile: there is no profile %q%s", path, r.Profile, didYouMean(r.Profile, p.profiles)))
	}
	l.profile = p.rules(path+".profile", patterns)
	for i := range l.profile {
		l.profile[i].text = fmt.Sprintf("%s.profile: %s", path, r.Profile)
	}
	return l
}

func (p *parser) rules(path string, texts []string) rules {
	var out rules
	for i, text := range texts {
		out = p.rule(out, path, i, text)
	}
	return out
}

func (p *parser) rule(to rules, path string, i int, text string) rules {
	pattern, err := ParsePattern(text, p.groups)
	if err != nil {
		p.problems = append(p.problems, fmt.Errorf("%s[%d]: %w", path, i, err))
		return to
	}
	return append(to, rule{pattern: pattern, text: fmt.Sprintf("%s[%d]: %q", path, i, text)})
}

// Step is what one layer says of a tool.
type Step struct {
	Layer   string `json:"layer"`
	Allowed bool   `json:"allowed"`
	Confirm bool   `json:"confirm,omitempty"`
	Rule    string `json:"rule"`
	// Because is the effect that the rule is about, when it is about effects.
	Because toolroom.Effect `json:"because,omitzero"`
}

// Decide asks every layer that applies: all must permit, and one that asks for
// confirmation is enough to ask. Rules about effects have no say: what a call
// would do is known with its arguments.
func (l *Layers) Decide(t *toolroom.Tool, who toolroom.Identity) Decision {
	return l.DecideCall(t, who, nil)
}

// DecideCall is Decide for a call that has these effects.
func (l *Layers) DecideCall(t *toolroom.Tool, who toolroom.Identity, effects []toolroom.Effect) Decision {
	decision := Decision{Effect: Allow}
	layers, n := l.applying(who)
	for _, layer := range layers[:n] {
		step := layer.judge(t, effects)
		switch {
		case !step.Allowed:
			return Decision{
				Effect:  Deny,
				Rule:    step.Rule,
				Because: step.Because,
				Hint:    "see which layer decided: toolroom policy explain" + explainFlags(who) + " " + t.ID.String(),
			}
		case step.Confirm && decision.Effect == Allow:
			decision = Decision{Effect: Confirm, Rule: step.Rule, Because: step.Because}
		case decision.Rule == "":
			decision.Rule = step.Rule
		}
	}
	return decision
}

// Explain lists what every applying layer says of a call with these effects, or
// of the tool when there are none, in order. DecideCall agrees with it: the
// first step that does not allow decides.
func (l *Layers) Explain(t *toolroom.Tool, who toolroom.Identity, effects []toolroom.Effect) []Step {
	layers, n := l.applying(who)
	steps := make([]Step, n)
	for i, layer := range layers[:n] {
		steps[i] = layer.judge(t, effects)
	}
	return steps
}

func (l *Layers) applying(who toolroom.Identity) (layers [4]*layer, n int) {
	layers[0], n = &l.global, 1
	for _, narrow := range [...]struct {
		by   map[string]*layer
		name string
	}{{l.agents, who.Agent}, {l.providers, who.Provider}, {l.identities, who.Key()}} {
		if layer, ok := narrow.by[narrow.name]; ok {
			layers[n] = layer
			n++
		}
	}
	return layers, n
}

func (l *layer) judge(t *toolroom.Tool, effects []toolroom.Effect) Step {
	if text, because, ok := l.deny.match(t, effects); ok {
		return Step{Layer: l.path, Rule: text, Because: because}
	}
	step := Step{Layer: l.path, Allowed: true, Rule: l.open}
	if text, _, ok := l.allow.match(t, nil); ok {
		step.Rule = text
	} else if text, _, ok := l.profile.match(t, nil); ok {
		step.Rule = text
	} else if l.closed {
		return Step{Layer: l.path, Rule: l.shut}
	}
	if text, because, ok := l.confirm.match(t, effects); ok {
		step.Confirm, step.Rule, step.Because = true, text, because
	}
	return step
}

func explainFlags(who toolroom.Identity) string {
	flags := ""
	if who.Agent != "" {
		flags += " --agent " + who.Agent
	}
	if who.Provider != "" {
		flags += " --provider " + who.Provider
	}
	return flags
}

package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom"
)

// Policy is a compiled [Config]: an immutable [Decider].
type Policy struct {
	config     Config
	global     layer
	agents     map[string]*layer
	providers  map[string]*layer
	identities map[string]*layer
	sets       map[string]*layer
	skills     map[string]*skill
	hooks      hooks
	denylist   []denial
	sensitive  sensitive
	named      []Named

	parts Parts
	// views caches the part of decisions that depends on tool and caller only.
	views *lru.Cache[viewer, *view]
}

// Parts are the optional parts of a Policy besides its Config.
type Parts struct {
	// Written holds the rules of the section "policy".
	Written Written
	// Elevations says who may call sensitive tools; without it no caller may.
	Elevations Elevated
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Written decides by rules that are written as text. Package cedar implements it.
type Written interface {
	// View prepares the rules for a tool and a caller.
	View(t *toolroom.Tool, who toolroom.Identity) WrittenView
}

// WrittenView is the written rules as they apply to one tool and one caller. It
// is safe for concurrent use.
type WrittenView interface {
	// Judge returns the step of the rules for a call. A nil call stands for a list:
	// then rules that depend on the call restrict nothing.
	Judge(call *Context) toolroom.PolicyStep
	// Settled reports whether Judge returns the same step for every call.
	Settled() bool
}

// maxViews bounds the memory of a Policy, at about 1 KiB a view.
const maxViews = 1 << 14

// With returns a copy of the policy with these parts.
func (p *Policy) With(parts Parts) *Policy {
	out := *p
	out.parts = parts
	if out.parts.Now == nil {
		out.parts.Now = time.Now
	}
	out.views, _ = lru.New[viewer, *view](maxViews) // fails for sizes below one alone
	return &out
}

// WithElevations returns a copy of the policy that looks up elevations in held.
func (p *Policy) WithElevations(held Elevated) *Policy {
	parts := p.parts
	parts.Elevations = held
	return p.With(parts)
}

// Config returns the config that the policy was compiled from.
func (p *Policy) Config() Config { return p.config }

// view is the part of a decision that depends on tool and caller only.
type view struct {
	layers    []toolroom.PolicyStep
	narrowing []*layer    // those of layers, when they have rules about effects
	written   WrittenView // nil when there are no rules
	skill     *skill
	denials   []*denial
	sensitive string // the rule that makes the tool sensitive, if any
	hook      toolroom.PolicyStep
	hooked    bool
	unknown   string            // what to do about a caller whose name is not configured
	declared  map[string]string // the names of the arguments, where rules ask
	log       bool
	// list and call are the decisions where nothing depends on the call.
	list Decision
	call *Decision
}

// viewer is the cache key of a view. Tools of the catalog never change: a new
// definition is a new Tool.
type viewer struct {
	tool                                                      *toolroom.Tool
	subject, agent, provider, skill, set, environment, groups string
}

// Decide makes a decision step by step. No step lifts the restriction of another:
// the first step that denies decides, else the first that asks. The order is that
// of the reference (Flynn); package run resolves the tool before, and runs,
// truncates and records the call afterwards.
func (p *Policy) Decide(ctx context.Context, r Request) Decision {
	v := p.view(r)
	if r.Call == nil {
		return v.list
	}
	if v.call != nil && v.skill == nil {
		return *v.call
	}
	if r.Call.Arguments != nil {
		call := *r.Call
		call.Arguments = guarded(call.Arguments, v.declared)
		r.Call = &call
	}
	steps := make([]toolroom.PolicyStep, 0, len(v.layers)+5)
	// 1. Layers: the profile, plus allow, minus deny, then agent, provider,
	// identity, tool set and skill, each of which only narrows.
	steps = append(steps, v.layers...)
	var effectRules []EffectRule
	for i, l := range v.narrowing {
		steps[i] = v.judge(i, l, r.Tool, r.Call)
		effectRules = append(effectRules, l.effectRules(r.Tool, r.Call)...)
	}
	if v.skill != nil {
		if step, beyond := v.skill.hold(r.Call); beyond {
			steps = append(steps, step)
		}
	}
	// 2. Written rules.
	if v.written != nil {
		steps = append(steps, v.written.Judge(r.Call))
	}
	// 3. The immutable denylist.
	if step, refused := refuse(v.denials, r.Call); refused {
		steps = append(steps, step)
	}
	// 4. Sensitive tools and elevation.
	if v.sensitive != "" {
		steps = append(steps, p.sensitive.judge(ctx, p.parts.Elevations, r, v.sensitive, p.parts.Now()))
	}
	// 5. Hooks and autonomy.
	if v.hooked {
		steps = append(steps, v.hook)
	}
	d := conclude(steps, v.log, r)
	d.Rules = effectRules
	return d
}

// maxKept bounds the size of a cache key, because callers choose the names of
// their agents themselves.
const maxKept = 256

func (p *Policy) view(r Request) *view {
	key := viewer{
		tool: r.Tool, subject: r.Who.Key(), agent: r.Who.Agent, provider: r.Who.Provider, skill: r.Who.Skill, set: r.Who.Set,
		environment: r.Who.Environment, groups: strings.Join(r.Who.Groups, "\x00"),
	}
	// A group whose name has the separator would be taken for two.
	if strings.Count(key.groups, "\x00") > max(len(r.Who.Groups)-1, 0) {
		return p.look(r)
	}
	if len(key.subject)+len(key.agent)+len(key.provider)+len(key.skill)+len(key.set)+len(key.environment)+len(key.groups) > maxKept {
		return p.look(r)
	}
	if v, ok := p.views.Get(key); ok {
		return v
	}
	v := p.look(r)
	p.views.Add(key, v)
	return v
}

func (p *Policy) look(r Request) *view {
	v := &view{denials: entries(p.denylist, r.Tool), unknown: p.unknownName(r.Who)}
	autonomy := p.global.autonomy
	applying := p.applying(r.Who)
	for i, l := range applying {
		v.layers = append(v.layers, v.judge(i, l, r.Tool, nil))
		if l.deny.aboutEffects() || l.confirm.aboutEffects() {
			v.narrowing = applying
		}
		if l.autonomy != "" && l.autonomy.rank() < autonomy.rank() {
			autonomy = l.autonomy
		}
	}
	if _, known := p.sets[r.Who.Set]; r.Who.Set != "" && !known {
		v.layers = append(v.layers, p.unknownSet(r.Who.Set))
	}
	if r.Who.Skill != "" {
		v.skill = p.skills[r.Who.Skill]
		if v.skill == nil {
			v.layers = append(v.layers, p.unknownSkill(r.Who.Skill))
		} else {
			v.layers = append(v.layers, v.skill.judge(r.Tool))
		}
	}
	v.hook, v.log, v.hooked = p.hooks.judge(r.Tool, autonomy)
	v.sensitive, _, _ = p.sensitive.tools.catch(r.Tool, nil)

	steps := append([]toolroom.PolicyStep{}, v.layers...)
	settled := v.sensitive == "" && v.narrowing == nil
	if p.parts.Written != nil {
		v.written = p.parts.Written.View(r.Tool, r.Who)
		steps = append(steps, v.written.Judge(nil))
		settled = settled && v.written.Settled()
	}
	if step, refused := refuse(v.denials, nil); refused {
		steps = append(steps, step)
	} else {
		settled = settled && len(v.denials) == 0
	}
	if v.hooked {
		steps = append(steps, v.hook)
	}
	v.list = conclude(steps, v.log, r)
	if settled {
		call := v.list
		v.call = &call
	} else {
		v.declared = declared(r.Tool)
	}
	return v
}

// judge returns the step of a layer. A denial of one that narrows the caller says so if the
// caller's name is not configured: it is most often a typo.
func (v *view) judge(at int, l *layer, t *toolroom.Tool, call *Context) toolroom.PolicyStep {
	step := l.judge(t, call)
	if at > 0 && step.Effect == toolroom.VerdictDeny {
		step.Hint = cmp.Or(step.Hint, v.unknown)
	}
	return step
}

// applying returns the layers that apply to a caller. A caller that names an agent or a
// provider that is not configured, while others are, gets the least of them: all their
// layers apply, so that a typo does not widen what it may do.
func (p *Policy) applying(who toolroom.Identity) []*layer {
	layers := []*layer{&p.global}
	for _, narrow := range [...]struct {
		by   map[string]*layer
		name string
	}{{p.agents, who.Agent}, {p.providers, who.Provider}} {
		if l, ok := narrow.by[narrow.name]; ok {
			layers = append(layers, l)
		} else if narrow.name != "" {
			for _, name := range slices.Sorted(maps.Keys(narrow.by)) {
				layers = append(layers, narrow.by[name])
			}
		}
	}
	if l, ok := p.identities[who.Key()]; ok {
		layers = append(layers, l)
	}
	if l, ok := p.sets[who.Set]; ok {
		layers = append(layers, l)
	}
	return layers
}

// unknownName returns what to do about a caller whose agent or provider is not configured,
// while others are; else "".
func (p *Policy) unknownName(who toolroom.Identity) string {
	for _, named := range [...]struct {
		by         map[string]*layer
		kind, name string
	}{{p.agents, "agent", who.Agent}, {p.providers, "provider", who.Provider}} {
		if _, ok := named.by[named.name]; !ok && named.name != "" && len(named.by) > 0 {
			return fmt.Sprintf("there is no %s %s in tools.%ss%s; an unknown one may do what all of them may", named.kind, quote(named.name), named.kind, didYouMean(named.name, named.by))
		}
	}
	return ""
}

func (p *Policy) unknownSet(name string) toolroom.PolicyStep {
	return toolroom.PolicyStep{
		Layer: "sets", Effect: toolroom.VerdictDeny, Rule: "sets: there is no tool set " + quote(name),
		Hint: "write it under sets" + didYouMean(name, p.sets),
	}
}

func (p *Policy) unknownSkill(name string) toolroom.PolicyStep {
	return toolroom.PolicyStep{
		Layer: "tools.skills", Effect: toolroom.VerdictDeny, Rule: "tools.skills: there is no skill " + quote(name),
		Hint: "write its permissions under tools.skills" + didYouMean(name, p.skills),
	}
}

// conclude combines all steps into the decision.
func conclude(steps []toolroom.PolicyStep, log bool, r Request) Decision {
	d := Decision{Effect: toolroom.VerdictAllow, Log: log, Steps: steps}
	for i, s := range steps {
		if i == 0 || narrower(s.Effect, d.Effect) {
			d.Effect, d.Rule, d.Because, d.Hint, d.CLIHint = s.Effect, s.Rule, s.Because, s.Hint, s.CLIHint
		}
		d.Isolation = stronger(d.Isolation, s.Isolation)
		d.Engine = cmp.Or(d.Engine, s.Engine) // written rules alone name one
	}
	if d.Effect == toolroom.VerdictDeny && d.Hint == "" {
		d.CLIHint = "see which layer decided: toolroom policy explain" + explainFlags(r.Who) + " " + r.Tool.ID.String()
		if key, ok := strings.CutSuffix(d.Rule, notInProfile); ok {
			key, _, _ = strings.Cut(key, ":")
			d.CLIHint += fmt.Sprintf("; to permit it, add %q to %s.allow", r.Tool.ID.Namespace+"."+r.Tool.ID.Name, key)
		}
	}
	return d
}

func explainFlags(who toolroom.Identity) string {
	flags := ""
	for _, flag := range [...]struct{ name, value string }{
		{"subject", who.Subject}, {"agent", who.Agent}, {"provider", who.Provider}, {"skill", who.Skill}, {"set", who.Set}, {"env", who.Environment},
	} {
		if flag.value != "" {
			flags += " --" + flag.name + " " + flag.value
		}
	}
	return flags
}

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
	config        Config
	global        layer
	agents        map[string]*layer
	providers     map[string]*layer
	identities    map[string]*layer
	sets          map[string]*layer
	skills        map[string]*skill
	hooks         hooks
	denylist      []denial
	sensitive     sensitive
	namedPatterns []NamedPattern

	parts Parts
	// views caches the part of decisions that depends on tool and caller only.
	views *lru.Cache[viewKey, *view]
}

// Parts are the optional parts of a Policy besides its Config.
type Parts struct {
	// TextRules holds the rules of the section "policy".
	TextRules TextRules
	// Elevations finds the elevations for sensitive tools. If it is nil, there are none.
	Elevations ElevationLookup
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// TextRules are rules in a policy language. Package cedar implements them.
type TextRules interface {
	// View prepares the rules for a tool and a caller.
	View(t *toolroom.Tool, who toolroom.Identity) TextRulesView
}

// TextRulesView holds the rules that apply to one tool and one caller. It
// is safe for concurrent use.
type TextRulesView interface {
	// Decide returns the step of the rules for a call. A nil call means that tools are listed;
	// then rules that depend on the call do not apply.
	Decide(call *Context) toolroom.PolicyStep
	// IsConstant reports whether Decide returns the same step for every call.
	IsConstant() bool
}

// maxViews limits the memory of a Policy. A view takes about 1 KiB.
const maxViews = 1 << 14

// With returns a copy of the policy with these parts.
func (p *Policy) With(parts Parts) *Policy {
	out := *p
	out.parts = parts
	if out.parts.Now == nil {
		out.parts.Now = time.Now
	}
	out.views, _ = lru.New[viewKey, *view](maxViews) // fails only for sizes below one
	return &out
}

// WithElevations returns a copy of the policy that looks up elevations in held.
func (p *Policy) WithElevations(held ElevationLookup) *Policy {
	parts := p.parts
	parts.Elevations = held
	return p.With(parts)
}

// Config returns the config that the policy was compiled from.
func (p *Policy) Config() Config { return p.config }

// view is the part of a decision that depends on tool and caller only.
type view struct {
	layers       []toolroom.PolicyStep
	effectLayers []*layer      // the layers again, if one has rules about effects
	textRules    TextRulesView // nil if there are no rules
	skill        *skill
	denials      []*denial
	sensitive    string // the rule that makes the tool sensitive, if any
	hook         toolroom.PolicyStep
	hasHook      bool
	unknownHint  string            // what to do about a caller whose name is not configured
	declared     map[string]string // the names of the arguments, if rules depend on them
	log          bool
	// list is the decision for lists, and call that for every call, or nil if it depends on
	// the call.
	list Decision
	call *Decision
}

// viewKey is the cache key of a view. A tool of the catalog never changes: a new definition
// is a new Tool.
type viewKey struct {
	tool                                                      *toolroom.Tool
	subject, agent, provider, skill, set, environment, groups string
}

// Decide makes a decision step by step. No step lifts the restriction of another: the first
// step that denies decides, otherwise the first that asks. The order is that of the reference
// implementation (Flynn). Package run resolves the tool before, and runs, truncates and
// records the call afterwards.
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
		call.Arguments = rejectLookAlikes(call.Arguments, v.declared)
		r.Call = &call
	}
	steps := make([]toolroom.PolicyStep, 0, len(v.layers)+5)
	// 1. Layers: the profile, plus allow, minus deny; then agent, provider, identity, tool set
	// and skill, each of which can only restrict further.
	steps = append(steps, v.layers...)
	var effectRules []EffectRule
	for i, l := range v.effectLayers {
		steps[i] = v.judgeLayer(i, l, r.Tool, r.Call)
		effectRules = append(effectRules, l.effectRules(r.Tool, r.Call)...)
	}
	if v.skill != nil {
		if step, exceeded := v.skill.checkLimits(r.Call); exceeded {
			steps = append(steps, step)
		}
	}
	// 2. Rules that are written as text.
	if v.textRules != nil {
		steps = append(steps, v.textRules.Decide(r.Call))
	}
	// 3. The immutable denylist.
	if step, denied := checkDenials(v.denials, r.Call); denied {
		steps = append(steps, step)
	}
	// 4. Sensitive tools and elevation.
	if v.sensitive != "" {
		steps = append(steps, p.sensitive.judge(ctx, p.parts.Elevations, r, v.sensitive, p.parts.Now()))
	}
	// 5. Hooks and autonomy.
	if v.hasHook {
		steps = append(steps, v.hook)
	}
	d := conclude(steps, v.log, r)
	d.Rules = effectRules
	return d
}

// maxKeyLength limits the size of a cache key, because callers choose the names of their
// agents.
const maxKeyLength = 256

func (p *Policy) view(r Request) *view {
	key := viewKey{
		tool: r.Tool, subject: r.Who.Key(), agent: r.Who.Agent, provider: r.Who.Provider, skill: r.Who.Skill, set: r.Who.Set,
		environment: r.Who.Environment, groups: strings.Join(r.Who.Groups, "\x00"),
	}
	// A group whose name contains the separator would look like two groups.
	if strings.Count(key.groups, "\x00") > max(len(r.Who.Groups)-1, 0) {
		return p.newView(r)
	}
	if len(key.subject)+len(key.agent)+len(key.provider)+len(key.skill)+len(key.set)+len(key.environment)+len(key.groups) > maxKeyLength {
		return p.newView(r)
	}
	if v, ok := p.views.Get(key); ok {
		return v
	}
	v := p.newView(r)
	p.views.Add(key, v)
	return v
}

func (p *Policy) newView(r Request) *view {
	v := &view{denials: matchingDenials(p.denylist, r.Tool), unknownHint: p.unknownNameHint(r.Who)}
	autonomy := p.global.autonomy
	applying := p.layersFor(r.Who)
	for i, l := range applying {
		v.layers = append(v.layers, v.judgeLayer(i, l, r.Tool, nil))
		if l.deny.hasEffectRules() || l.confirm.hasEffectRules() {
			v.effectLayers = applying
		}
		if l.autonomy != "" && l.autonomy.rank() < autonomy.rank() {
			autonomy = l.autonomy
		}
	}
	if _, known := p.sets[r.Who.Set]; r.Who.Set != "" && !known {
		v.layers = append(v.layers, p.unknownSetStep(r.Who.Set))
	}
	if r.Who.Skill != "" {
		v.skill = p.skills[r.Who.Skill]
		if v.skill == nil {
			v.layers = append(v.layers, p.unknownSkillStep(r.Who.Skill))
		} else {
			v.layers = append(v.layers, v.skill.judge(r.Tool))
		}
	}
	v.hook, v.log, v.hasHook = p.hooks.judge(r.Tool, autonomy)
	v.sensitive, _, _ = p.sensitive.tools.firstRestriction(r.Tool, nil)

	steps := append([]toolroom.PolicyStep{}, v.layers...)
	settled := v.sensitive == "" && v.effectLayers == nil
	if p.parts.TextRules != nil {
		v.textRules = p.parts.TextRules.View(r.Tool, r.Who)
		steps = append(steps, v.textRules.Decide(nil))
		settled = settled && v.textRules.IsConstant()
	}
	if step, denied := checkDenials(v.denials, nil); denied {
		steps = append(steps, step)
	} else {
		settled = settled && len(v.denials) == 0
	}
	if v.hasHook {
		steps = append(steps, v.hook)
	}
	v.list = conclude(steps, v.log, r)
	if settled {
		call := v.list
		v.call = &call
	} else {
		v.declared = declaredArguments(r.Tool)
	}
	return v
}

// judgeLayer returns the step of the layer at index at. If a layer other than the first denies
// and the caller's name is not configured, the step hints at that: it is most often a typo.
func (v *view) judgeLayer(at int, l *layer, t *toolroom.Tool, call *Context) toolroom.PolicyStep {
	step := l.judge(t, call)
	if at > 0 && step.Effect == toolroom.VerdictDeny {
		step.Hint = cmp.Or(step.Hint, v.unknownHint)
	}
	return step
}

// layersFor returns the layers that apply to a caller. If the caller's agent or provider is not
// configured although others are, the layers of all the others apply, so that a typo does not
// permit more.
func (p *Policy) layersFor(who toolroom.Identity) []*layer {
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

// unknownNameHint returns a hint if the caller's agent or provider is not configured although
// others are, and otherwise "".
func (p *Policy) unknownNameHint(who toolroom.Identity) string {
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

func (p *Policy) unknownSetStep(name string) toolroom.PolicyStep {
	return toolroom.PolicyStep{
		Layer: "sets", Effect: toolroom.VerdictDeny, Rule: "sets: there is no tool set " + quote(name),
		Hint: "write it under sets" + didYouMean(name, p.sets),
	}
}

func (p *Policy) unknownSkillStep(name string) toolroom.PolicyStep {
	return toolroom.PolicyStep{
		Layer: "tools.skills", Effect: toolroom.VerdictDeny, Rule: "tools.skills: there is no skill " + quote(name),
		Hint: "write its permissions under tools.skills" + didYouMean(name, p.skills),
	}
}

// conclude combines all steps into the decision.
func conclude(steps []toolroom.PolicyStep, log bool, r Request) Decision {
	d := Decision{Effect: toolroom.VerdictAllow, Log: log, Steps: steps}
	for i, s := range steps {
		if i == 0 || stricter(s.Effect, d.Effect) {
			d.Effect, d.Rule, d.Because, d.Hint, d.CLIHint = s.Effect, s.Rule, s.Because, s.Hint, s.CLIHint
		}
		d.Isolation = stronger(d.Isolation, s.Isolation)
		d.Engine = cmp.Or(d.Engine, s.Engine) // only written rules name one
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

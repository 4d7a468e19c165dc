package policy

import (
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
)

// layer is one compiled Rules. The text of every rule is prepared, because decisions are on the
// hot path.
type layer struct {
	path    string
	profile rules
	// closed means that the layer permits only what profile or allow name.
	closed               bool
	allow, deny, confirm rules
	autonomy             Autonomy
	// defaultAllow and defaultDeny are the rules that decide if no pattern does.
	defaultAllow, defaultDeny string
}

type rules []rule

type rule struct {
	pattern Pattern
	effect  *EffectPattern // in place of pattern
	text    string
}

// firstMatch returns the text of the first rule that selects the tool.
func (r rules) firstMatch(t *toolroom.Tool) (string, bool) {
	for i := range r {
		if r[i].pattern.Matches(t) {
			return r[i].text, true
		}
	}
	return "", false
}

// firstRestriction returns the text of the first restricting rule that matches the tool in any
// spelling, or the call by its effects. Then because is the first effect that the rule matches.
// A nil call has no effects.
func (r rules) firstRestriction(t *toolroom.Tool, call *Context) (text string, because toolroom.Effect, ok bool) {
	for i := range r {
		if because, ok := r[i].matches(t, call); ok {
			return r[i].text, because, true
		}
	}
	return "", because, false
}

// hasEffectRules reports whether one of the rules is about effects.
func (r rules) hasEffectRules() bool {
	return slices.ContainsFunc(r, func(one rule) bool { return one.effect != nil })
}

// notInProfile ends the text of the rule by which a layer denies tools that are neither in its
// profile nor in its allow list.
const notInProfile = " nor its allow list has it"

func (p *parser) parseLayer(path string, r Rules) layer {
	l := layer{
		path:     path,
		allow:    p.parseRules(path+".allow", r.Allow),
		deny:     p.parseRestrictions(path+".deny", r.Deny),
		confirm:  p.parseRestrictions(path+".confirm", r.Confirm),
		autonomy: r.Autonomy,
		// An override that allows tools permits only these. The global layer without a
		// profile has the profile full.
		closed:       r.Profile != "" || path != "tools" && len(r.Allow) > 0,
		defaultAllow: path + ": no profile",
		defaultDeny:  path + ": its allow list does not have it",
	}
	p.checkAutonomy(path, r.Autonomy)
	if r.Profile == "" {
		return l
	}
	l.defaultDeny = fmt.Sprintf("%s: neither its profile %q", path, r.Profile) + notInProfile
	patterns, ok := p.profiles[r.Profile]
	if !ok {
		p.addProblem(path+".profile", "there is no profile %q%s", r.Profile, didYouMean(r.Profile, p.profiles))
	}
	l.profile = p.parseRules(path+".profile", patterns)
	for i := range l.profile {
		l.profile[i].text = fmt.Sprintf("%s.profile: %s", path, r.Profile)
	}
	return l
}

// judge returns the step of the layer: its profile, plus allow, minus deny. If call is nil, rules
// about effects do not apply.
func (l *layer) judge(t *toolroom.Tool, call *Context) toolroom.PolicyStep {
	if text, because, ok := l.deny.firstRestriction(t, call); ok {
		return toolroom.PolicyStep{Layer: l.path, Effect: toolroom.VerdictDeny, Rule: text, Because: because}
	}
	step := toolroom.PolicyStep{Layer: l.path, Effect: toolroom.VerdictAllow, Rule: l.defaultAllow}
	if text, ok := l.allow.firstMatch(t); ok {
		step.Rule = text
	} else if text, ok := l.profile.firstMatch(t); ok {
		step.Rule = text
	} else if l.closed {
		return toolroom.PolicyStep{Layer: l.path, Effect: toolroom.VerdictDeny, Rule: l.defaultDeny}
	}
	if text, because, ok := l.confirm.firstRestriction(t, call); ok {
		step.Effect, step.Rule, step.Because = toolroom.VerdictConfirm, text, because
	}
	return step
}

// effectRules returns the layer's rules about effects, as they apply to the call.
func (l *layer) effectRules(t *toolroom.Tool, call *Context) []EffectRule {
	var all []EffectRule
	for _, list := range []rules{l.deny, l.confirm} {
		for i := range list {
			if list[i].effect == nil {
				continue
			}
			_, matched := list[i].matches(t, call)
			all = append(all, EffectRule{Rule: list[i].text, Enforced: call.enforces(list[i].effect.effect), effect: list[i].effect.effect, matched: matched})
		}
	}
	return all
}

// enforces reports whether a rule about effects is enforced on the call.
func (c *Context) enforces(rule toolroom.Effect) bool { return c.Enforced != nil && c.Enforced(rule) }

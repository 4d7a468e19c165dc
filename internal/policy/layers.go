package policy

import (
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
)

// layer is one set of Rules, with the text of every rule made beforehand: a
// decision is on the hot path.
type layer struct {
	path    string
	profile rules
	// closed layers permit only what profile or allow name.
	closed               bool
	allow, deny, confirm rules
	autonomy             Autonomy
	// open and shut are the rules that decide when no pattern does.
	open, shut string
}

type rules []rule

type rule struct {
	pattern Pattern
	effect  *EffectPattern // in place of pattern
	text    string
}

// match is the text of the first rule that selects the tool.
func (r rules) match(t *toolroom.Tool) (string, bool) {
	for i := range r {
		if r[i].pattern.Matches(t) {
			return r[i].text, true
		}
	}
	return "", false
}

// catch is match for rules that take away (see [Pattern.Catches]), from the tool
// or from a call of it; then because is the first of its effects that the rule is about.
// A nil call has no effects.
func (r rules) catch(t *toolroom.Tool, call *Context) (text string, because toolroom.Effect, ok bool) {
	for i := range r {
		if because, ok := r[i].selects(t, call); ok {
			return r[i].text, because, true
		}
	}
	return "", because, false
}

// aboutEffects reports whether one of the rules judges calls by their effects.
func (r rules) aboutEffects() bool {
	return slices.ContainsFunc(r, func(one rule) bool { return one.effect != nil })
}

// notInProfile ends the rule of a layer that denies what neither its profile nor its allow
// list has.
const notInProfile = " nor its allow list has it"

func (p *parser) layer(path string, r Rules) layer {
	l := layer{
		path:     path,
		allow:    p.rules(path+".allow", r.Allow),
		deny:     p.restrictions(path+".deny", r.Deny),
		confirm:  p.restrictions(path+".confirm", r.Confirm),
		autonomy: r.Autonomy,
		// An override that names tools narrows to them; the global layer
		// without a profile has the profile full.
		closed: r.Profile != "" || path != "tools" && len(r.Allow) > 0,
		open:   path + ": no profile",
		shut:   path + ": its allow list does not have it",
	}
	p.autonomy(path, r.Autonomy)
	if r.Profile == "" {
		return l
	}
	l.shut = fmt.Sprintf("%s: neither its profile %q", path, r.Profile) + notInProfile
	patterns, ok := p.profiles[r.Profile]
	if !ok {
		p.problem(path+".profile", "there is no profile %q%s", r.Profile, didYouMean(r.Profile, p.profiles))
	}
	l.profile = p.rules(path+".profile", patterns)
	for i := range l.profile {
		l.profile[i].text = fmt.Sprintf("%s.profile: %s", path, r.Profile)
	}
	return l
}

// judge is the profile, plus allow, minus deny. Without a call, rules about
// effects have no say.
func (l *layer) judge(t *toolroom.Tool, call *Context) toolroom.PolicyStep {
	if text, because, ok := l.deny.catch(t, call); ok {
		return toolroom.PolicyStep{Layer: l.path, Effect: toolroom.VerdictDeny, Rule: text, Because: because}
	}
	step := toolroom.PolicyStep{Layer: l.path, Effect: toolroom.VerdictAllow, Rule: l.open}
	if text, ok := l.allow.match(t); ok {
		step.Rule = text
	} else if text, ok := l.profile.match(t); ok {
		step.Rule = text
	} else if l.closed {
		return toolroom.PolicyStep{Layer: l.path, Effect: toolroom.VerdictDeny, Rule: l.shut}
	}
	if text, because, ok := l.confirm.catch(t, call); ok {
		step.Effect, step.Rule, step.Because = toolroom.VerdictConfirm, text, because
	}
	return step
}

// effectRules returns the layer's rules about effects, as they apply to a call.
func (l *layer) effectRules(t *toolroom.Tool, call *Context) []EffectRule {
	var all []EffectRule
	for _, list := range []rules{l.deny, l.confirm} {
		for i := range list {
			if list[i].effect == nil {
				continue
			}
			_, matched := list[i].selects(t, call)
			all = append(all, EffectRule{Rule: list[i].text, Enforced: call.enforces(list[i].effect.effect), effect: list[i].effect.effect, matched: matched})
		}
	}
	return all
}

// enforces reports whether a rule about effects is enforced on the call.
func (c *Context) enforces(rule toolroom.Effect) bool { return c.Enforced != nil && c.Enforced(rule) }

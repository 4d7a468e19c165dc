package policy

import (
	"fmt"

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

// catch is match for rules that take away (see [Pattern.Catches]).
func (r rules) catch(t *toolroom.Tool) (string, bool) {
	for i := range r {
		if r[i].pattern.Catches(t) {
			return r[i].text, true
		}
	}
	return "", false
}

func (p *parser) layer(path string, r Rules) layer {
	l := layer{
		path:     path,
		allow:    p.rules(path+".allow", r.Allow),
		deny:     p.rules(path+".deny", r.Deny),
		confirm:  p.rules(path+".confirm", r.Confirm),
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
	l.shut = fmt.Sprintf("%s: neither its profile %q nor its allow list has it", path, r.Profile)
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

// judge is the profile, plus allow, minus deny.
func (l *layer) judge(t *toolroom.Tool) Step {
	if text, ok := l.deny.catch(t); ok {
		return Step{Layer: l.path, Effect: Deny, Rule: text}
	}
	step := Step{Layer: l.path, Effect: Allow, Rule: l.open}
	if text, ok := l.allow.match(t); ok {
		step.Rule = text
	} else if text, ok := l.profile.match(t); ok {
		step.Rule = text
	} else if l.closed {
		return Step{Layer: l.path, Effect: Deny, Rule: l.shut}
	}
	if text, ok := l.confirm.catch(t); ok {
		step.Effect, step.Rule = Confirm, text
	}
	return step
}

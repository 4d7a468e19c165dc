package cedar

import (
	"fmt"
	"iter"
	"maps"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// layer is the name of the step that rules make.
const layer = "policy.rules"

// View prepares what the rules say of a tool and a caller: which match whatever
// the call brings, and which depend on it.
func (r *Rules) View(t *toolroom.Tool, who toolroom.Identity) policy.WrittenView {
	v := &view{rules: r, members: map[string]bool{}, subject: r.subject(t, who)}
	var settled, open []*rule
	for _, one := range r.rules {
		if one.scope == nil {
			settled = append(settled, one)
		} else {
			open = append(open, one)
		}
	}
	v.known = v.match(settled, (*rule).whole, v.subject.request(cedar.Record{}))
	// A rule is left out for good when not even its scope can match.
	for _, m := range v.match(open, (*rule).part, v.subject.request(cedar.Record{})) {
		v.open = append(v.open, m.rule)
		maps.Copy(v.members, m.rule.members)
	}
	return v
}

// view is what the rules say of one tool and caller.
type view struct {
	rules   *Rules
	subject subject
	known   []match
	open    []*rule // may match, in the order of the text
	// members of the context are those that open rules ask about; a call pays
	// for no other.
	members map[string]bool
}

// match is a rule that matches, or that cannot be evaluated.
type match struct {
	rule    *rule
	failure string
}

// Settled reports whether no rule depends on the call.
func (v *view) Settled() bool { return len(v.open) == 0 }

// Judge returns the step of the rules.
func (v *view) Judge(call *policy.Context) toolroom.PolicyStep {
	matches := v.known
	if call != nil && len(v.open) > 0 {
		record, err := v.rules.context(call, v.members)
		if err != nil {
			return toolroom.PolicyStep{Layer: layer, Effect: toolroom.VerdictDeny, Rule: layer + ": the arguments cannot be checked: " + err.Error()}
		}
		open := v.open
		if call.Arguments == nil {
			open = nil
			for _, one := range v.open {
				if !one.members["arguments"] && !one.members["isolation"] {
					open = append(open, one)
				}
			}
		}
		matches = append(matches[:len(matches):len(matches)], v.match(open, (*rule).whole, v.subject.request(record))...)
	}
	// Where the call, or its arguments, are not known, a permit that depends on
	// them may come to match.
	mayPermit := (call == nil || call.Arguments == nil) && hasPermit(v.open)
	return v.rules.conclude(matches, mayPermit)
}

func hasPermit(open []*rule) bool {
	for _, one := range open {
		if !one.forbid {
			return true
		}
	}
	return false
}

// conclude weighs the rules that match. What narrows wins: a forbid before a
// question before a permit. A rule that cannot be evaluated counts as matching
// when it narrows, and as not matching when it permits: leaving an argument out
// is no way around a rule. (A rule that the tool or the caller alone rules out is
// not evaluated.)
func (r *Rules) conclude(matches []match, mayPermit bool) toolroom.PolicyStep {
	var forbid, ask, permit *match
	var isolation toolroom.Isolation
	var engine, other *match // that name engines which are not the same
	for i := range matches {
		m := &matches[i]
		if m.failure == "" || m.rule.forbid || m.rule.ask || m.rule.confines() {
			if m.rule.isolation != "" && !policy.Holds(isolation, m.rule.isolation) {
				isolation = m.rule.isolation
			}
			if m.rule.engine != "" {
				engine = first(engine, m)
				if m.rule.engine != engine.rule.engine {
					other = first(other, m)
				}
			}
			switch {
			case m.rule.ask:
				ask = first(ask, m)
			case m.rule.forbid:
				forbid = first(forbid, m)
			}
		}
		if !m.rule.forbid && m.failure == "" {
			permit = first(permit, m)
		}
	}
	step := toolroom.PolicyStep{Layer: layer, Effect: toolroom.VerdictAllow, Rule: layer + ": none takes it away", Isolation: isolation}
	if engine != nil {
		step.Engine = engine.rule.engine
	}
	switch {
	case forbid != nil:
		step.Effect, step.Rule = toolroom.VerdictDeny, forbid.text()
	case other != nil:
		step.Effect = toolroom.VerdictDeny
		step.Rule = fmt.Sprintf("%s: on %s alone, and %s: on %s alone", engine.text(), engine.rule.engine, other.text(), other.rule.engine)
	case permit == nil && r.o.DenyByDefault && !mayPermit:
		step.Effect, step.Rule = toolroom.VerdictDeny, "policy.default: deny, and no rule permits it"
	case ask != nil:
		step.Effect, step.Rule = toolroom.VerdictConfirm, ask.text()
	case permit != nil:
		step.Rule = permit.text()
	}
	return step
}

func first(a, b *match) *match {
	if a != nil {
		return a
	}
	return b
}

func (m *match) text() string {
	if m.failure == "" {
		return m.rule.text
	}
	return m.rule.text + " (it cannot be evaluated, and counts as matching: " + m.failure + ")"
}

// confines reports whether the rule says in what a tool runs, in place of whether
// it does.
func (r *rule) confines() bool { return r.isolation != "" || r.engine != "" }

func (r *rule) whole() *cedar.Policy { return r.policy }
func (r *rule) part() *cedar.Policy  { return r.scope }

// match evaluates rules. Those that fail are in the answer too.
func (v *view) match(rules []*rule, form func(*rule) *cedar.Policy, request cedar.Request) []match {
	if len(rules) == 0 {
		return nil
	}
	_, diagnostic := cedar.Authorize(set{rules, form}, v.subject, request)
	if len(diagnostic.Reasons) == 0 && len(diagnostic.Errors) == 0 {
		return nil
	}
	found := make(map[cedar.PolicyID]string, len(diagnostic.Reasons)+len(diagnostic.Errors))
	for _, reason := range diagnostic.Reasons {
		found[reason.PolicyID] = ""
	}
	for _, e := range diagnostic.Errors {
		found[e.PolicyID] = e.Message
	}
	matches := make([]match, 0, len(found))
	for _, one := range rules {
		if failure, ok := found[one.id]; ok {
			matches = append(matches, match{one, failure})
		}
	}
	return matches
}

// set is what Authorize goes through.
type set struct {
	rules []*rule
	form  func(*rule) *cedar.Policy
}

// All yields the policies.
func (s set) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, one := range s.rules {
			if !yield(one.id, s.form(one)) {
				return
			}
		}
	}
}

// Len is how many rules there are.
func (r *Rules) Len() int { return len(r.rules) }

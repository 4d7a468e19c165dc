package cedar

import (
	"cmp"
	"fmt"
	"iter"
	"maps"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// layerName is the name of the step that the rules add.
const layerName = "policy.rules"

// View prepares the rules for a tool and a caller: which match every call, and which depend on
// the call.
func (r *Rules) View(t *toolroom.Tool, who toolroom.Identity) policy.TextRulesView {
	v := &view{rules: r, members: map[string]bool{}, subject: r.subject(t, who)}
	var settled, open []*rule
	for _, one := range r.rules {
		if one.scope == nil {
			settled = append(settled, one)
		} else {
			open = append(open, one)
		}
	}
	v.fixedMatches = v.evaluate(settled, (*rule).fullPolicy, v.subject.request(cedar.Record{}))
	// Drop a rule if not even its scope can match.
	for _, m := range v.evaluate(open, (*rule).scopePolicy, v.subject.request(cedar.Record{})) {
		v.callRules = append(v.callRules, m.rule)
		maps.Copy(v.members, m.rule.members)
	}
	return v
}

// view is the rules as they apply to one tool and caller.
type view struct {
	rules        *Rules
	subject      subject
	fixedMatches []match
	callRules    []*rule // may match, in the order of the text
	// members are the context attributes that callRules use. No others are computed.
	members map[string]bool
}

// match is a rule that matches, or that cannot be evaluated.
type match struct {
	rule    *rule
	failure string
}

// IsConstant reports whether no rule depends on the call.
func (v *view) IsConstant() bool { return len(v.callRules) == 0 }

// Decide returns the step of the rules.
func (v *view) Decide(call *policy.Context) toolroom.PolicyStep {
	matches := v.fixedMatches
	if call != nil && len(v.callRules) > 0 {
		record, err := v.rules.contextRecord(call, v.members)
		if err != nil {
			return toolroom.PolicyStep{Layer: layerName, Effect: toolroom.VerdictDeny, Rule: layerName + ": the arguments cannot be checked: " + err.Error()}
		}
		open := v.callRules
		if call.Arguments == nil {
			open = nil
			for _, one := range v.callRules {
				if !one.members["arguments"] && !one.members["isolation"] {
					open = append(open, one)
				}
			}
		}
		matches = append(matches[:len(matches):len(matches)], v.evaluate(open, (*rule).fullPolicy, v.subject.request(record))...)
	}
	// If the call or its arguments are unknown, a permit that depends on them may still match.
	mayPermit := (call == nil || call.Arguments == nil) && hasPermit(v.callRules)
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

// conclude combines the rules that match. The strictest takes precedence: a forbid, then a
// question, then a permit. A rule that cannot be evaluated counts as matching if it restricts,
// and as not matching if it permits, so that a caller cannot evade a rule by omitting an
// argument. Rules that cannot match the tool or the caller are not evaluated.
func (r *Rules) conclude(matches []match, mayPermit bool) toolroom.PolicyStep {
	var forbid, ask, permit *match
	var isolation toolroom.Isolation
	var engine, other *match // the first two rules that require different engines
	for i := range matches {
		m := &matches[i]
		if m.failure == "" || m.rule.forbid || m.rule.ask || m.rule.choosesRuntime() {
			if m.rule.isolation != "" && !policy.AtLeast(isolation, m.rule.isolation) {
				isolation = m.rule.isolation
			}
			if m.rule.engine != "" {
				engine = cmp.Or(engine, m)
				if m.rule.engine != engine.rule.engine {
					other = cmp.Or(other, m)
				}
			}
			switch {
			case m.rule.ask:
				ask = cmp.Or(ask, m)
			case m.rule.forbid:
				forbid = cmp.Or(forbid, m)
			}
		}
		if !m.rule.forbid && m.failure == "" {
			permit = cmp.Or(permit, m)
		}
	}
	step := toolroom.PolicyStep{Layer: layerName, Effect: toolroom.VerdictAllow, Rule: layerName + ": none takes it away", Isolation: isolation}
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

func (m *match) text() string {
	if m.failure == "" {
		return m.rule.text
	}
	return m.rule.text + " (it cannot be evaluated, and counts as matching: " + m.failure + ")"
}

// choosesRuntime reports whether the rule sets the isolation or engine of a tool, instead of
// whether it may run.
func (r *rule) choosesRuntime() bool { return r.isolation != "" || r.engine != "" }

func (r *rule) fullPolicy() *cedar.Policy  { return r.policy }
func (r *rule) scopePolicy() *cedar.Policy { return r.scope }

// evaluate returns the rules that match, and those that cannot be evaluated. policyOf returns the
// policy of a rule to evaluate.
func (v *view) evaluate(rules []*rule, policyOf func(*rule) *cedar.Policy, request cedar.Request) []match {
	if len(rules) == 0 {
		return nil
	}
	_, diagnostic := cedar.Authorize(policySet{rules, policyOf}, v.subject, request)
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

// policySet implements [cedar.PolicyIterator] for rules.
type policySet struct {
	rules    []*rule
	policyOf func(*rule) *cedar.Policy
}

// All yields the policies.
func (s policySet) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, one := range s.rules {
			if !yield(one.id, s.policyOf(one)) {
				return
			}
		}
	}
}

// Len returns the number of rules.
func (r *Rules) Len() int { return len(r.rules) }

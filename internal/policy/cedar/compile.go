// Package cedar makes decisions by rules written in Cedar
// (https://www.cedarpolicy.com), and shows the layers of a policy in the same
// language. Start with [Compile]; toolroom.cedarschema defines what rules can use.
package cedar

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
)

// Text is one text of rules. Name identifies it in decisions and problems: it is a file name or
// the key in the config.
type Text struct {
	Name string
	Body []byte
}

// MaxText is the largest text of rules, in bytes.
const MaxText = 1 << 20

// Options are the options of [Compile].
type Options struct {
	// DenyByDefault denies a call that no permit rule matches. Without it, rules only restrict
	// what the layers permit.
	DenyByDefault bool
	// Environment is the value of context.environment.
	Environment string
	// Groups are the patterns of the tools in each Group::"name".
	Groups map[string]policy.Pattern
	// Engines are the names that @engine may have. If it is empty, any is allowed.
	Engines []string
}

// Rules are compiled rules. They are immutable and implement [policy.TextRules].
type Rules struct {
	o     Options
	rules []*rule
	texts []Text
}

// rule is one Cedar policy. It is compiled as a permit whatever its effect is, so that one
// evaluation shows which rules match.
type rule struct {
	id     cedar.PolicyID // its index
	text   string         // its name in decisions
	forbid bool
	// ask, isolation and engine are the outcomes that its annotations set.
	ask       bool
	isolation toolroom.Isolation
	engine    string
	// members are the context attributes that the rule uses.
	members map[string]bool
	policy  *cedar.Policy
	// scope matches everything that the rule can match, and does not depend on the call. It is
	// nil if the rule itself does not depend on the call.
	scope *cedar.Policy
}

// Compile compiles rules. If they have mistakes, the error is a [*Problems] with all of them.
func Compile(texts []Text, o Options) (*Rules, error) {
	r := &Rules{o: o, texts: texts}
	typed, err := newValidator()
	if err != nil {
		return nil, err
	}
	var problems Problems
	for _, text := range texts {
		if len(text.Body) > MaxText {
			problems.add(text.Name, position{1, 1}, fmt.Sprintf("it has more than %d bytes", MaxText), "")
			continue
		}
		list, err := cedar.NewPolicyListFromBytes(text.Name, text.Body)
		if err != nil {
			at, reason := parseSyntaxError(err)
			problems.add(text.Name, at, reason, "")
			continue
		}
		for _, p := range list {
			c := checker{text: text, policy: p, typed: typed, engines: o.Engines, problems: &problems}
			c.check()
			r.rules = append(r.rules, r.compile(text, p, &c))
		}
	}
	if len(problems.Found) > 0 {
		problems.sort()
		return nil, &problems
	}
	return r, nil
}

func (r *Rules) compile(text Text, p *cedar.Policy, c *checker) *rule {
	source := (*ast.Policy)(p.AST())
	at := p.Position()
	out := &rule{
		id:     cedar.PolicyID(strconv.Itoa(len(r.rules))),
		text:   fmt.Sprintf("%s:%d:%d", text.Name, at.Line, at.Column),
		forbid: p.Effect() == cedar.Forbid,
		ask:    c.ask, isolation: c.isolation, engine: c.engine, members: c.members,
	}
	if id := p.Annotations()["id"]; id != "" {
		out.text += " (" + string(id) + ")"
	}
	if reason := p.Annotations()["reason"]; reason != "" {
		out.text += ": " + string(reason)
	}
	permit := *source
	permit.Effect = ast.EffectPermit
	out.policy = newPolicy(permit)
	if usesContext(source.Conditions) {
		scope := permit
		scope.Conditions = withoutContext(source.Conditions)
		out.scope = newPolicy(scope)
	}
	return out
}

func newPolicy(p ast.Policy) *cedar.Policy {
	return cedar.NewPolicyFromAST((*publicAST)(&p))
}

// usesContext reports whether conditions depend on the call.
func usesContext(conditions []ast.ConditionType) bool {
	return slices.ContainsFunc(conditions, func(c ast.ConditionType) bool { return mentionsContext(c.Body) })
}

// withoutContext removes what depends on the call, so that the result matches at least what
// conditions match. It removes every "unless" that mentions the context and, from a "when", the
// parts joined by && that do.
func withoutContext(conditions []ast.ConditionType) []ast.ConditionType {
	var out []ast.ConditionType
	for _, c := range conditions {
		if c.Condition == ast.ConditionUnless {
			if !mentionsContext(c.Body) {
				out = append(out, c)
			}
			continue
		}
		for _, part := range conjuncts(c.Body) {
			if !mentionsContext(part) {
				out = append(out, ast.ConditionType{Condition: ast.ConditionWhen, Body: part})
			}
		}
	}
	return out
}

func conjuncts(n ast.IsNode) []ast.IsNode {
	if and, ok := n.(ast.NodeTypeAnd); ok {
		return append(conjuncts(and.Left), conjuncts(and.Right)...)
	}
	return []ast.IsNode{n}
}

func mentionsContext(n ast.IsNode) (found bool) {
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		if v, ok := n.(ast.NodeTypeVariable); ok && v.Name == "context" {
			found = true
		}
		return !found
	})
	return found
}

// cedarNumber converts a JSON number to a Cedar value. Equal numbers have equal values: 100, 1e2
// and 100.0 are the same Long. It returns false if Cedar cannot represent the number.
func cedarNumber(n json.Number) (cedar.Value, bool) {
	canonical, err := jsonx.Canonical([]byte(n))
	if err != nil {
		return nil, false
	}
	text := string(canonical)
	if !strings.ContainsAny(text, ".eE") {
		i, err := json.Number(text).Int64()
		return cedar.Long(i), err == nil
	}
	d, err := types.ParseDecimal(text)
	return d, err == nil
}

// addSpending adds what a call spends to record: 0 without a unit if it spends nothing. If the
// amount is unknown or in more than one unit, it is unrepresentable.
func addSpending(record cedar.RecordMap, predicted []toolroom.Effect) {
	var sum effects.Amount
	first := true
	for _, e := range predicted {
		if e.Kind != toolroom.EffectSpend {
			continue
		}
		amount, ok := effects.ParseAmount(e.Target)
		if !ok || !first && sum.Unit != amount.Unit {
			record["amount"], record["unit"] = unrepresentable, unrepresentable
			return
		}
		first = false
		sum = effects.Amount{Micros: effects.AddMicros(sum.Micros, amount.Micros), Unit: amount.Unit}
	}
	// Cedar has four digits after the point: round up.
	value, err := types.NewDecimal(effects.AddMicros(sum.Micros, 99)/100, -4)
	if err != nil {
		record["amount"], record["unit"] = unrepresentable, unrepresentable
		return
	}
	record["amount"], record["unit"] = value, cedar.String(sum.Unit)
}

// Package cedar decides by rules written in Cedar (https://www.cedarpolicy.com)
// and shows the layers of a policy in the same language. Start with [Compile];
// toolroom.cedarschema says what rules can ask about.
package cedar

import (
	"fmt"
	"slices"
	"strconv"

	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// Text is one text of rules; Name stands for it in rules and mistakes: a file,
// or the key of the config that holds it.
type Text struct {
	Name string
	Body []byte
}

// MaxText is the largest text of rules, in bytes.
const MaxText = 1 << 20

// Options say what stands around the rules.
type Options struct {
	// DenyByDefault refuses what no permit rule names. Without it, rules only
	// take away from what the layers permit.
	DenyByDefault bool
	// Environment is what context.environment says.
	Environment string
	// Groups are the parents of the form Group::"name" that tools have.
	Groups map[string]policy.Pattern
	// Engines are the names that @engine may give. None stands for any.
	Engines []string
}

// Rules are compiled rules. They are immutable, and a [policy.Written].
type Rules struct {
	o     Options
	rules []*rule
	texts []Text
}

// rule is one policy. Its parts are compiled as permits whatever their effect,
// so that one evaluation tells which rules match.
type rule struct {
	id     cedar.PolicyID // its index
	text   string         // what decisions name
	forbid bool
	// ask, isolation and engine are the outcomes that annotations give.
	ask       bool
	isolation toolroom.Isolation
	engine    string
	// members are those of the context that the rule asks about.
	members map[string]bool
	policy  *cedar.Policy
	// scope matches whatever the rule can match, and depends on no call. Nil
	// stands for the rule itself.
	scope *cedar.Policy
}

// Compile reads rules. The error is a [*Problems] with every mistake.
func Compile(texts []Text, o Options) (*Rules, error) {
	r := &Rules{o: o, texts: texts}
	typed, err := validator()
	if err != nil {
		return nil, err
	}
	var problems Problems
	for _, text := range texts {
		if len(text.Body) > MaxText {
			problems.add(text.Name, place{1, 1}, fmt.Sprintf("it has more than %d bytes", MaxText), "")
			continue
		}
		list, err := cedar.NewPolicyListFromBytes(text.Name, text.Body)
		if err != nil {
			at, reason := syntax(err)
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
	out.policy = compiled(permit)
	if usesContext(source.Conditions) {
		scope := permit
		scope.Conditions = withoutContext(source.Conditions)
		out.scope = compiled(scope)
	}
	return out
}

func compiled(p ast.Policy) *cedar.Policy {
	return cedar.NewPolicyFromAST((*publicAST)(&p))
}

// usesContext reports whether conditions depend on the call.
func usesContext(conditions []ast.ConditionType) bool {
	return slices.ContainsFunc(conditions, func(c ast.ConditionType) bool { return mentionsContext(c.Body) })
}

// withoutContext leaves out what depends on the call, and so matches at least
// what conditions match: of a condition "when", the parts joined by && stay that
// do not mention the context.
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

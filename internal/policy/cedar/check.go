package cedar

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	cedar "github.com/cedar-policy/cedar-go"
	publicast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
)

//go:embed toolroom.cedarschema
var schemaText string

// Schema is what rules can ask about, in Cedar's language of schemas.
func Schema() string { return schemaText }

type publicAST = publicast.Policy

// Problem is one mistake in rules.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

// String returns the problem in one line: file:line:column: reason; hint.
func (p Problem) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Reason)
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	return text
}

// Problems is every mistake, in order of place.
type Problems struct{ Found []Problem }

// Error prints one problem a line.
func (p *Problems) Error() string {
	lines := make([]string, len(p.Found))
	for i, one := range p.Found {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) add(file string, at place, reason, hint string) {
	p.Found = append(p.Found, Problem{file, at.line, at.column, reason, hint})
}

func (p *Problems) sort() {
	slices.SortStableFunc(p.Found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// place is a line and column, from 1.
type place struct{ line, column int }

var syntaxPlace = regexp.MustCompile(`<?[^<>\s]*>?:(\d+):(\d+):? ?`)

// syntax takes the place out of the message of Cedar's parser.
func syntax(err error) (place, string) {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "parser error: "), "parse error at ")
	m := syntaxPlace.FindStringSubmatchIndex(reason)
	if m == nil {
		return place{1, 1}, reason
	}
	line, _ := strconv.Atoi(reason[m[2]:m[3]])
	column, _ := strconv.Atoi(reason[m[4]:m[5]])
	return place{max(line, 1), max(column, 1)}, "not Cedar: " + reason[:m[0]] + reason[m[1]:]
}

// validator is Cedar's own checker of types, for our schema.
func validator() (*validate.Validator, error) {
	var s schema.Schema
	if err := s.UnmarshalCedar([]byte(schemaText)); err != nil {
		return nil, fmt.Errorf("the schema of rules: %w", err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		return nil, fmt.Errorf("the schema of rules: %w", err)
	}
	return validate.New(resolved, validate.WithPermissive()), nil
}

// checker judges one policy against the schema.
type checker struct {
	text     Text
	policy   *cedar.Policy
	typed    *validate.Validator
	engines  []string
	problems *Problems

	// What its annotations say.
	ask       bool
	isolation toolroom.Isolation
	engine    string
	// members are those of the context that it asks about.
	members map[string]bool
}

func (c *checker) check() {
	c.members = map[string]bool{}
	found := len(c.problems.Found)
	c.annotations()
	c.names()
	if len(c.problems.Found) == found && !c.members["arguments"] {
		c.types()
	}
}

func (c *checker) annotations() {
	known := []string{"id", "reason", "outcome", "isolation", "engine"}
	for _, key := range slices.Sorted(maps.Keys(c.policy.Annotations())) {
		value := string(c.policy.Annotations()[key])
		at := "@" + string(key)
		switch key {
		case "id", "reason":
		case "outcome":
			c.ask = true
			if value != string(toolroom.VerdictConfirm) {
				c.problem(at, fmt.Sprintf("there is no outcome %q", value), `write @outcome("confirm")`)
			}
		case "isolation":
			c.confines(at)
			var err error
			if c.isolation, err = policy.ParseIsolation(value); err != nil {
				c.problem(at, err.Error(), "")
			}
		case "engine":
			c.confines(at)
			c.engine = value
			switch {
			case strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || value == "":
				c.problem(at, fmt.Sprintf("%q is no engine", value), "write one that toolroom doctor lists")
			case len(c.engines) > 0 && !slices.Contains(c.engines, value):
				c.problem(at, fmt.Sprintf("there is no engine %q", value), didYouMean(value, c.engines))
			}
		default:
			// Cedar lets annotations be anything; a mistyped outcome is not to be
			// overlooked.
			c.problem(at, fmt.Sprintf("there is no annotation %s", at), didYouMean(string(key), known))
		}
	}
}

// confines refuses an annotation that says in what a tool runs on a forbid: who writes one
// expects that it denies.
func (c *checker) confines(at string) {
	if c.policy.Effect() == cedar.Forbid {
		c.problem(at, fmt.Sprintf("a forbid has no %s: it lets the tool run in nothing", at),
			`put it on a permit, or forbid what runs elsewhere: forbid (…) unless { ["gvisor", "vm"].contains(context.isolation) }`)
	}
}

// names checks every type, action and attribute, and names the nearest one.
func (c *checker) names() {
	source := (*ast.Policy)(c.policy.AST())
	for _, scope := range []ast.IsScopeNode{source.Principal, source.Action, source.Resource} {
		c.scope(scope)
	}
	for _, condition := range source.Conditions {
		ast.Inspect(ast.NewNode(condition.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				c.attribute(n.Arg, string(n.Value))
			case ast.NodeTypeHas:
				c.attribute(n.Arg, string(n.Value))
			case ast.NodeTypeIs:
				c.entityType(n.EntityType)
			case ast.NodeTypeIsIn:
				c.entityType(n.EntityType)
			case ast.NodeValue:
				if uid, ok := n.Value.(types.EntityUID); ok {
					c.entity(uid)
				}
			}
			return true
		})
	}
	if mentionsWholeContext(source.Conditions) {
		c.problem("context", "the context as a whole is no value to judge by", "ask for one of its attributes, such as context.arguments")
	}
}

// mentionsWholeContext reports whether a condition uses the context other than
// through an attribute of it.
func mentionsWholeContext(conditions []ast.ConditionType) bool {
	whole, through := 0, 0
	for _, condition := range conditions {
		ast.Inspect(ast.NewNode(condition.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeVariable:
				if n.Name == "context" {
					whole++
				}
			case ast.NodeTypeAccess:
				if isVariable(n.Arg, "context") {
					through++
				}
			case ast.NodeTypeHas:
				if isVariable(n.Arg, "context") {
					through++
				}
			}
			return true
		})
	}
	return whole > through
}

func isVariable(n ast.IsNode, name string) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && string(v.Name) == name
}

func (c *checker) scope(n ast.IsScopeNode) {
	switch n := n.(type) {
	case ast.ScopeTypeEq:
		c.entity(n.Entity)
	case ast.ScopeTypeIn:
		c.entity(n.Entity)
	case ast.ScopeTypeInSet:
		for _, uid := range n.Entities {
			c.entity(uid)
		}
	case ast.ScopeTypeIs:
		c.entityType(n.Type)
	case ast.ScopeTypeIsIn:
		c.entityType(n.Type)
		c.entity(n.Entity)
	}
}

func (c *checker) entity(uid types.EntityUID) {
	if uid.Type == typeAction {
		if uid.ID != actionCall {
			c.problem(string(uid.ID), fmt.Sprintf("there is no action %q", uid.ID), `write Action::"call"`)
		}
		return
	}
	c.entityType(uid.Type)
}

func (c *checker) entityType(name types.EntityType) {
	known := []string{typeIdentity, typeTeam, typeTool, typeNamespace, typeSource, typeTag, typeGroup}
	if !slices.Contains(known, string(name)) {
		c.problem(string(name), fmt.Sprintf("there is no type of entity %s", name), didYouMean(string(name), known))
	}
}

// attributes are those of the schema, by what they are attributes of.
func attributes(n ast.IsNode) (of string, known []string) {
	switch {
	case isVariable(n, "principal"):
		return "principal", []string{"agent", "provider", "skill", "set", "environment"}
	case isVariable(n, "resource"):
		return "resource", []string{"id", "namespace", "name", "version", "source", "tags", "read_only", "destructive", "idempotent", "open_world"}
	case isVariable(n, "context"):
		return "context", []string{"arguments", "environment", "surface", "session", "time", "hour", "weekday", "depth", "effects", "taint", "isolation", "budget"}
	}
	access, ok := n.(ast.NodeTypeAccess)
	if !ok || !isVariable(access.Arg, "context") {
		return "", nil
	}
	switch access.Value {
	case "effects":
		return "context.effects", []string{"known", "read", "write", "hosts", "commands", "secrets", "amount", "unit"}
	case "budget":
		return "context.budget", []string{"calls", "bytes"}
	default:
		return "", nil
	}
}

func (c *checker) attribute(n ast.IsNode, name string) {
	of, known := attributes(n)
	if of == "context" {
		c.members[name] = true
	}
	if of != "" && !slices.Contains(known, name) {
		c.problem(name, fmt.Sprintf("%s has no attribute %s", of, name), didYouMean(name, known))
	}
}

// types runs Cedar's own checker of types. Arguments are those of the tool, so
// it cannot judge rules that ask about them.
func (c *checker) types() {
	if err := c.typed.Policy("rule", (*ast.Policy)(c.policy.AST())); err != nil {
		c.problem("", strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", "; ")), "see what rules can ask about: toolroom policy show --schema")
	}
}

// problem notes a mistake where a word first stands in the policy.
func (c *checker) problem(word, reason, hint string) {
	c.problems.add(c.text.Name, c.find(word), reason, hint)
}

func (c *checker) find(word string) place {
	at := c.policy.Position()
	start := place{at.Line, at.Column}
	if word == "" || at.Offset > len(c.text.Body) {
		return start
	}
	rest := string(c.text.Body[at.Offset:])
	i := wordIn(rest, word)
	if i < 0 {
		return start
	}
	before := rest[:i]
	if n := strings.Count(before, "\n"); n > 0 {
		return place{start.line + n, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1}
	}
	return place{start.line, start.column + utf8.RuneCountInString(before)}
}

// wordIn is where a word stands in a text with nothing of a word around it.
func wordIn(text, word string) int {
	inWord := func(b byte) bool {
		return b == '_' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(word)
		if (i == 0 || !inWord(text[i-1])) && (end == len(text) || !inWord(text[end])) {
			return i
		}
		from = i + 1
	}
}

func didYouMean(name string, known []string) string {
	if meant, ok := nearest.Of(name, known); ok {
		return "did you mean " + meant + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

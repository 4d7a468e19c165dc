package cedar

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
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
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/policy"
)

//go:embed toolroom.cedarschema
var schemaText string

// Schema returns the Cedar schema of what rules can ask about.
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

// Problems is an error with every mistake, in the order of their positions.
type Problems struct{ Found []Problem }

// Error returns the problems, one per line.
func (p *Problems) Error() string {
	lines := make([]string, len(p.Found))
	for i, one := range p.Found {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) add(file string, at position, reason, hint string) {
	p.Found = append(p.Found, Problem{file, at.line, at.column, reason, hint})
}

func (p *Problems) sort() {
	slices.SortStableFunc(p.Found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// position is a line and a column, counted from 1.
type position struct{ line, column int }

var syntaxPosition = pattern.Lazy(`<?[^<>\s]*>?:(\d+):(\d+):? ?`)

// parseSyntaxError splits an error of Cedar's parser into its position and the reason.
func parseSyntaxError(err error) (position, string) {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "parser error: "), "parse error at ")
	m := syntaxPosition().FindStringSubmatchIndex(reason)
	if m == nil {
		return position{1, 1}, reason
	}
	line, _ := strconv.Atoi(reason[m[2]:m[3]])
	column, _ := strconv.Atoi(reason[m[4]:m[5]])
	return position{max(line, 1), max(column, 1)}, "not Cedar: " + describeToken(reason[:m[0]]+reason[m[1]:])
}

var wrongToken = pattern.Lazy(`^".*": (?:exact )?got (.*) want (.+)$`)

// describeToken returns a reason of Cedar's parser in the words of our other messages, if it
// is about a token that is missing.
func describeToken(reason string) string {
	m := wrongToken().FindStringSubmatch(reason)
	switch {
	case m == nil:
		return reason
	case m[1] == "":
		return fmt.Sprintf("expected %q, but the text ends", m[2])
	}
	return fmt.Sprintf("expected %q, got %q", m[2], m[1])
}

// newValidator returns Cedar's type checker for our schema.
func newValidator() (*validate.Validator, error) {
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

// checker checks one policy against the schema.
type checker struct {
	text     Text
	policy   *cedar.Policy
	typed    *validate.Validator
	engines  []string
	problems *Problems

	// From the policy's annotations.
	ask       bool
	isolation toolroom.Isolation
	engine    string
	// members are the context attributes that the policy uses.
	members map[string]bool
}

func (c *checker) check() {
	c.members = map[string]bool{}
	found := len(c.problems.Found)
	c.checkAnnotations()
	c.checkNames()
	if len(c.problems.Found) == found && !c.members["arguments"] {
		c.checkTypes()
	}
}

func (c *checker) checkAnnotations() {
	known := []string{"id", "reason", "outcome", "isolation", "engine"}
	for _, key := range slices.Sorted(maps.Keys(c.policy.Annotations())) {
		value := string(c.policy.Annotations()[key])
		at := "@" + string(key)
		switch key {
		case "id", "reason":
		case "outcome":
			c.ask = true
			if value != string(toolroom.VerdictConfirm) {
				c.addProblem(at, fmt.Sprintf("there is no outcome %q", value), `write @outcome("confirm")`)
			}
		case "isolation":
			c.rejectOnForbid(at)
			var err error
			if c.isolation, err = policy.ParseIsolation(value); err != nil {
				c.addProblem(at, err.Error(), "")
			}
		case "engine":
			c.rejectOnForbid(at)
			c.engine = value
			switch {
			case strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" || value == "":
				c.addProblem(at, fmt.Sprintf("%q is no engine", value), "write one that toolroom doctor lists")
			case len(c.engines) > 0 && !slices.Contains(c.engines, value):
				c.addProblem(at, fmt.Sprintf("there is no engine %q", value), didYouMean(value, c.engines))
			}
		default:
			// Cedar allows any annotation, but a mistyped outcome must not go unnoticed.
			c.addProblem(at, fmt.Sprintf("there is no annotation %s", at), didYouMean(string(key), known))
		}
	}
}

// rejectOnForbid reports a problem if an annotation that sets the isolation or engine is on a
// forbid, because its author expects it to deny.
func (c *checker) rejectOnForbid(at string) {
	if c.policy.Effect() == cedar.Forbid {
		c.addProblem(at, fmt.Sprintf("a forbid has no %s: it lets the tool run in nothing", at),
			`put it on a permit, or forbid what runs elsewhere: forbid (…) unless { ["gvisor", "vm"].contains(context.isolation) }`)
	}
}

// checkNames checks the names of all types, actions and attributes, and suggests the nearest.
func (c *checker) checkNames() {
	source := (*ast.Policy)(c.policy.AST())
	for _, scope := range []ast.IsScopeNode{source.Principal, source.Action, source.Resource} {
		c.checkScope(scope)
	}
	for _, condition := range source.Conditions {
		ast.Inspect(ast.NewNode(condition.Body), func(n ast.IsNode) bool {
			switch n := n.(type) {
			case ast.NodeTypeAccess:
				c.checkAttribute(n.Arg, string(n.Value))
			case ast.NodeTypeHas:
				c.checkAttribute(n.Arg, string(n.Value))
			case ast.NodeTypeIs:
				c.checkEntityType(n.EntityType)
			case ast.NodeTypeIsIn:
				c.checkEntityType(n.EntityType)
			case ast.NodeValue:
				if uid, ok := n.Value.(types.EntityUID); ok {
					c.checkEntity(uid)
				}
			}
			return true
		})
	}
	if mentionsWholeContext(source.Conditions) {
		c.addProblem("context", "the context as a whole is no value to judge by", "ask for one of its attributes, such as context.arguments")
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

func (c *checker) checkScope(n ast.IsScopeNode) {
	switch n := n.(type) {
	case ast.ScopeTypeEq:
		c.checkEntity(n.Entity)
	case ast.ScopeTypeIn:
		c.checkEntity(n.Entity)
	case ast.ScopeTypeInSet:
		for _, uid := range n.Entities {
			c.checkEntity(uid)
		}
	case ast.ScopeTypeIs:
		c.checkEntityType(n.Type)
	case ast.ScopeTypeIsIn:
		c.checkEntityType(n.Type)
		c.checkEntity(n.Entity)
	}
}

func (c *checker) checkEntity(uid types.EntityUID) {
	if uid.Type == typeAction {
		if uid.ID != actionCall {
			c.addProblem(string(uid.ID), fmt.Sprintf("there is no action %q", uid.ID), `write Action::"call"`)
		}
		return
	}
	c.checkEntityType(uid.Type)
}

func (c *checker) checkEntityType(name types.EntityType) {
	known := []string{typeIdentity, typeTeam, typeTool, typeNamespace, typeSource, typeTag, typeGroup}
	if !slices.Contains(known, string(name)) {
		c.addProblem(string(name), fmt.Sprintf("there is no type of entity %s", name), didYouMean(string(name), known))
	}
}

// knownAttributes returns the attributes that the schema has for n, and the name of n. of is ""
// if they are not known.
func knownAttributes(n ast.IsNode) (of string, known []string) {
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

func (c *checker) checkAttribute(n ast.IsNode, name string) {
	of, known := knownAttributes(n)
	if of == "context" {
		c.members[name] = true
	}
	if of != "" && !slices.Contains(known, name) {
		c.addProblem(name, fmt.Sprintf("%s has no attribute %s", of, name), didYouMean(name, known))
	}
}

// checkTypes runs Cedar's type checker. It cannot check rules that use the arguments, whose types
// depend on the tool.
func (c *checker) checkTypes() {
	if err := c.typed.Policy("rule", (*ast.Policy)(c.policy.AST())); err != nil {
		c.addProblem("", strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", "; ")), "see what rules can ask about: toolroom policy show --schema")
	}
}

// addProblem adds a problem at the first position of word in the policy.
func (c *checker) addProblem(word, reason, hint string) {
	c.problems.add(c.text.Name, c.positionOf(word), reason, hint)
}

func (c *checker) positionOf(word string) position {
	at := c.policy.Position()
	start := position{at.Line, at.Column}
	if word == "" || at.Offset > len(c.text.Body) {
		return start
	}
	rest := string(c.text.Body[at.Offset:])
	i := indexWord(rest, word)
	if i < 0 {
		return start
	}
	before := rest[:i]
	if n := strings.Count(before, "\n"); n > 0 {
		return position{start.line + n, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1}
	}
	return position{start.line, start.column + utf8.RuneCountInString(before)}
}

// indexWord returns the index of word in text, where it is not part of a longer word, or -1.
func indexWord(text, word string) int {
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

package expression

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

// The metered functions. No expression can name them: the first byte is a space.
const (
	operateName = " operate" // (run, operator, left, right)
	callName    = " call"    // (run, builtin, arguments...)
	listName    = " list"    // (run, builtin, list that a builtin goes through)
	tickName    = " tick"    // (run, builtin, work, value of a predicate)
	keyName     = " key"     // (run, value that is looked up or handed to a method)
	fromEndName = " fromEnd" // (run, list, index in the reversed list, or nil)
)

func functions() []expr.Option {
	type function = func(r *run, args []any) (any, error)
	of := func(name string, f function) expr.Option {
		return expr.Function(name, func(args ...any) (any, error) { return f(args[0].(*run), args[1:]) })
	}
	return []expr.Option{
		of(operateName, func(r *run, args []any) (any, error) { return r.operate(args[0].(string), args[1], args[2]) }),
		of(callName, func(r *run, args []any) (any, error) { return r.call(args[0].(string), args[1:]) }),
		of(listName, func(r *run, args []any) (any, error) {
			return args[1], r.charge(itemWork + saturatingMultiply(itemWork, size(args[1])))
		}),
		of(tickName, func(r *run, args []any) (any, error) {
			return args[2], r.tick(args[0].(string), args[1].(int), args[2])
		}),
		of(keyName, func(r *run, args []any) (any, error) { return args[0], r.charge(itemWork * (1 + addedSize(args[0]))) }),
		of(fromEndName, func(_ *run, args []any) (any, error) {
			if i, ok := args[1].(int); ok {
				return size(args[0]) - 1 - i, nil
			}
			return nil, nil
		}),
	}
}

// meterVisitor puts the metered functions into an expression.
type meterVisitor struct{ err error }

var metered = []string{"+", "==", "!=", "<", ">", "<=", ">=", "in", "matches", "contains", "startsWith", "endsWith"}

// constantCost operators cost the same whatever their operands are. A range is bounded
// by Expr's own budget of items.
var constantCost = []string{"-", "*", "/", "%", "**", "^", "&&", "||", "and", "or", "??", ".."}

// Visit is called for each node after those below it.
func (m *meterVisitor) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			m.err = errors.New("$env is not available here; name the variables")
		}
	case *ast.BinaryNode:
		switch {
		case slices.Contains(metered, n.Operator):
			*node = newCall(*node, operateName, &ast.StringNode{Value: n.Operator}, n.Left, n.Right)
		case !slices.Contains(constantCost, n.Operator):
			m.err = fmt.Errorf("the operator %s is not available here", n.Operator)
		}
	case *ast.BuiltinNode:
		m.builtin(node, n)
	case *ast.CallNode:
		if name, ok := n.Callee.(*ast.IdentifierNode); ok && strings.HasPrefix(name.Value, " ") {
			return // patched already: Expr shares nodes
		}
		for i := range n.Arguments {
			meterKey(&n.Arguments[i])
		}
	case *ast.MemberNode:
		meterKey(&n.Property)
	case *ast.PairNode:
		meterKey(&n.Key)
	}
}

func (m *meterVisitor) builtin(node *ast.Node, n *ast.BuiltinNode) {
	f := builtin.Builtins[builtin.Index[n.Name]]
	if !f.Predicate {
		*node = newCall(n, callName, append([]ast.Node{&ast.StringNode{Value: n.Name}}, n.Arguments...)...)
		return
	}
	if n.Name == "findLast" || n.Name == "findLastIndex" {
		m.fromEnd(node, n)
		return
	}
	n.Arguments[0] = newCall(n.Arguments[0], listName, &ast.StringNode{Value: n.Name}, n.Arguments[0])
	for _, argument := range n.Arguments[1:] {
		predicate, ok := argument.(*ast.PredicateNode)
		if !ok || isCall(predicate.Node, tickName) {
			continue
		}
		nodes := new(counter)
		ast.Walk(&predicate.Node, nodes)
		predicate.Node = newCall(predicate.Node, tickName, &ast.StringNode{Value: n.Name}, &ast.IntegerNode{Value: itemWork * int(*nodes)}, predicate.Node)
	}
}

// fromEnd makes findLast a find in the reversed list. Expr's own loop from the
// end leaves a value on the stack for each item, among the arguments of whatever
// function the result is for.
func (m *meterVisitor) fromEnd(node *ast.Node, n *ast.BuiltinNode) {
	list := n.Arguments[0]
	find := &ast.BuiltinNode{Name: map[string]string{"findLast": "find", "findLastIndex": "findIndex"}[n.Name], Throws: n.Throws}
	find.SetLocation(n.Location())
	find.Arguments = []ast.Node{newCall(n, callName, &ast.StringNode{Value: "reverse"}, list), n.Arguments[1]}
	*node = find
	m.builtin(node, find)
	if n.Name == "findLastIndex" {
		*node = newCall(n, fromEndName, list, *node)
	}
}

// meterKey meters a value whose use costs what it is long.
func meterKey(node *ast.Node) {
	switch (*node).(type) {
	case *ast.StringNode, *ast.IntegerNode:
		return
	}
	if !isCall(*node, keyName) {
		*node = newCall(*node, keyName, *node)
	}
}

func newCall(at ast.Node, name string, args ...ast.Node) ast.Node {
	n := &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: append([]ast.Node{&ast.IdentifierNode{Value: meterName}}, args...)}
	n.SetLocation(at.Location())
	return n
}

func isCall(n ast.Node, name string) bool {
	c, ok := n.(*ast.CallNode)
	if !ok {
		return false
	}
	callee, ok := c.Callee.(*ast.IdentifierNode)
	return ok && callee.Value == name
}

// tick charges for one value of a predicate.
func (r *run) tick(of string, work int, v any) error {
	switch of {
	case "groupBy":
		work += addedSize(v) // hashed
	case "sortBy":
		work += 32 * (itemWork + addedSize(v)) // compared about so often
	}
	return r.charge(work)
}

// applyTextOperator applies an operator of texts.
func (r *run) applyTextOperator(operator string, a, b any) (any, error) {
	if a == nil || b == nil {
		return false, nil
	}
	text, ok := a.(string)
	part, too := b.(string)
	if !ok || !too {
		return nil, fmt.Errorf("%s compares strings, not %T and %T", operator, a, b)
	}
	switch operator {
	case "contains":
		return strings.Contains(text, part), nil
	case "startsWith":
		return strings.HasPrefix(text, part), nil
	case "endsWith":
		return strings.HasSuffix(text, part), nil
	}
	return r.matchPattern(text, part)
}

// matchPattern charges for each byte of a text as often as the regular expression
// has states: so long matching may take.
func (r *run) matchPattern(text, pattern string) (bool, error) {
	e := r.patterns[pattern]
	if e == nil {
		var err error
		if e, err = r.pattern(pattern); err != nil {
			return false, err
		}
		if r.patterns == nil {
			r.patterns = map[string]*matcher{}
		}
		r.patterns[pattern] = e
	}
	if err := r.charge(itemWork + saturatingMultiply(len(text), e.states)); err != nil {
		return false, err
	}
	return e.MatchString(text), nil
}

// matcher is a regular expression with the number of its states.
type matcher struct {
	*regexp.Regexp
	states int
}

// stateWork is the work of making one state of a regular expression.
const stateWork = 512

func (r *run) pattern(text string) (*matcher, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("a regular expression of %d bytes; at most %d are allowed", len(text), MaxText)
	}
	if err := r.charge(stateWork * len(text)); err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := countStates(parsed)
	if err := r.charge(saturatingMultiply(stateWork, n)); err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(text)
	return &matcher{compiled, n}, err
}

// countStates is how many states a regular expression has at most. Repetitions make
// a thousand copies of what they repeat.
func countStates(e *syntax.Regexp) int {
	n := 2 + len(e.Rune)
	for _, sub := range e.Sub {
		n += countStates(sub)
	}
	if e.Op == syntax.OpRepeat {
		n = saturatingMultiply(n, max(1, e.Min, e.Max)+1)
	}
	return n
}

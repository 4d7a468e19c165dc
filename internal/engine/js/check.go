package js

import (
	"slices"
	"strings"

	"github.com/dop251/goja/ast"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/nearest"
)

// check finds calls that must be mistakes: of unknown tools, with wrong arguments,
// without await. It reports only mistakes that the text leaves no doubt about.
func (p *Program) check(s *syntax, given bridge.Program) *bridge.Failure {
	tools := given.Tools
	if len(tools) == 0 && len(given.Unknown) == 0 {
		return nil
	}
	c := &checker{program: p, unknown: given.Unknown, names: map[string]*bridge.Tool{}, spaces: map[string][]string{}, own: map[string]bool{}, pending: map[string]*bridge.Tool{}}
	for i := range tools {
		c.learn(&tools[i])
	}
	for _, statement := range s.body {
		walk(statement, nil, c.declare)
	}
	for _, statement := range s.body {
		walk(statement, nil, c.settle)
	}
	for i, statement := range s.body {
		c.last = i == len(s.body)-1
		walk(statement, nil, c.visit)
		if c.failure != nil {
			return c.failure
		}
	}
	return c.unawaited(s)
}

type checker struct {
	program *Program
	unknown bridge.Map              // as in bridge.Program
	names   map[string]*bridge.Tool // by every known path
	spaces  map[string][]string     // names below a path
	own     map[string]bool         // names that the author's code declares
	pending map[string]*bridge.Tool // variables that hold a call not awaited
	last    bool
	failure *bridge.Failure
}

func (c *checker) learn(t *bridge.Tool) {
	c.names[t.ID] = t
	paths := append([][]string{append([]string{"tools"}, t.Path...)}, t.Globals...)
	for _, path := range paths {
		full := strings.Join(path, ".")
		c.names[full] = t
		if space := strings.Join(path[:len(path)-1], "."); space != "" && t.Kind != "cli" {
			c.spaces[space] = append(c.spaces[space], path[len(path)-1])
		}
	}
}

// settle forgets variables that may hold something else when they are used: those
// declared more than once, or assigned again.
func (c *checker) settle(node, _ any) bool {
	if n, ok := node.(*ast.AssignExpression); ok {
		for _, name := range path(n.Left) {
			delete(c.pending, name)
		}
	}
	return true
}

// declare records the names that the author's code declares, which are not tools.
func (c *checker) declare(node, _ any) bool {
	switch n := node.(type) {
	case *ast.Binding:
		name, ok := n.Target.(*ast.Identifier)
		again := ok && c.own[string(name.Name)]
		c.declareTarget(n.Target)
		if again {
			delete(c.pending, string(name.Name))
		} else if ok {
			if call, ok := n.Initializer.(*ast.CallExpression); ok {
				if tool, _ := c.called(call); tool != nil {
					c.pending[string(name.Name)] = tool
				}
			}
		}
	case *ast.FunctionLiteral:
		if n.Name != nil {
			c.own[string(n.Name.Name)] = true
		}
	case *ast.ClassLiteral:
		if n.Name != nil {
			c.own[string(n.Name.Name)] = true
		}
	case *ast.CatchStatement:
		c.declareTarget(n.Parameter)
	}
	return true
}

func (c *checker) declareTarget(target ast.BindingTarget) {
	if target == nil {
		return
	}
	walk(target, nil, func(node, _ any) bool {
		switch n := node.(type) {
		case *ast.Identifier:
			c.own[string(n.Name)] = true
		case *ast.PropertyShort:
			c.own[string(n.Name.Name)] = true
		}
		return true
	})
}

// path returns the chain of names of an expression, such as tools.github.search.
func path(e ast.Expression) []string {
	switch n := e.(type) {
	case *ast.Identifier:
		return []string{string(n.Name)}
	case *ast.DotExpression:
		if left := path(n.Left); left != nil {
			return append(left, string(n.Identifier.Name))
		}
	case *ast.BracketExpression:
		key, ok := n.Member.(*ast.StringLiteral)
		if left := path(n.Left); ok && left != nil {
			return append(left, string(key.Value))
		}
	}
	return nil
}

// called returns the tool that a call calls. If there is none, space is the known
// namespace that has no such name.
func (c *checker) called(call *ast.CallExpression) (tool *bridge.Tool, space string) {
	names := path(call.Callee)
	if len(names) == 0 || c.own[names[0]] {
		return nil, ""
	}
	if byID(names) {
		if len(call.ArgumentList) > 0 {
			if id, ok := call.ArgumentList[0].(*ast.StringLiteral); ok {
				return c.names[string(id.Value)], ""
			}
		}
		return nil, ""
	}
	if t := c.names[strings.Join(names, ".")]; t != nil {
		return t, ""
	}
	space = strings.Join(names[:len(names)-1], ".")
	if len(c.spaces[space]) == 0 {
		space = ""
	}
	return nil, space
}

func byID(names []string) bool { return len(names) == 1 && names[0] == "call_tool" }

// missing reports a call of a tool that does not exist.
func (c *checker) missing(call *ast.CallExpression) *bridge.Failure {
	names := path(call.Callee)
	if len(names) == 0 || c.own[names[0]] {
		return nil
	}
	if len(names) > 2 {
		names = names[:2]
	}
	reason := c.unknown.Text(strings.Join(names, "."))
	if id, is := literalID(call); is {
		reason = c.unknown.Text(id)
	}
	if reason == "" {
		return nil
	}
	return c.program.fail(bridge.FailCheck, at(call.Callee.Idx0()), "UnknownTool", "%s", reason)
}

// literalID returns the id passed to call_tool or run, if it is a literal.
func literalID(call *ast.CallExpression) (string, bool) {
	if names := path(call.Callee); len(names) != 1 || names[0] != "call_tool" && names[0] != "run" || len(call.ArgumentList) == 0 {
		return "", false
	}
	id, ok := call.ArgumentList[0].(*ast.StringLiteral)
	if !ok {
		return "", false
	}
	return string(id.Value), true
}

func (c *checker) visit(node, parent any) bool {
	switch n := node.(type) {
	case *ast.CallExpression:
		c.call(n, parent)
	case *ast.Identifier:
		if tool := c.pending[string(n.Name)]; tool != nil && c.failure == nil && misused(n, parent, tool) {
			c.failure = c.program.fail(bridge.FailCheck, at(n.Idx), "ForgottenAwait",
				"%s holds a promise, since the call that made it was not awaited: write const %s = %s", n.Name, n.Name, shape(tool))
		}
	}
	return c.failure == nil
}

func (c *checker) call(call *ast.CallExpression, parent any) {
	start := at(call.Callee.Idx0())
	if c.failure = c.missing(call); c.failure != nil {
		return
	}
	tool, space := c.called(call)
	list := call.ArgumentList
	if id, is := literalID(call); is {
		if list = list[1:]; tool == nil && !c.own["run"] {
			if t := c.names[id]; t != nil { // run, which returns its answer at once
				c.failure = c.arguments(t, list, start, true)
				return
			}
		}
	}
	switch {
	case tool != nil:
		c.failure = c.arguments(tool, list, start, byID(path(call.Callee)))
		statement, discarded := parent.(*ast.ExpressionStatement)
		discarded = discarded && !(c.last && statement.Expression == ast.Expression(call))
		if c.failure == nil && (discarded || misused(call, parent, tool)) {
			c.failure = c.program.fail(bridge.FailCheck, start, "ForgottenAwait",
				"a call of %s returns a promise: write %s", tool.ID, shape(tool))
		}
	case space != "":
		names := path(call.Callee)
		wrong := names[len(names)-1]
		message := "there is no tool " + strings.Join(names, ".")
		if meant, ok := nearest.Of(wrong, c.spaces[space]); ok {
			message += ": did you mean " + shape(c.names[space+"."+meant]) + "?"
		} else {
			known := slices.Clone(c.spaces[space])
			slices.Sort(known)
			message += ": of " + space + " this program has " + strings.Join(slices.Compact(known), ", ") + "; search_tools finds others"
		}
		c.failure = c.program.fail(bridge.FailCheck, start, "UnknownTool", "%s", message)
	}
}

// arguments checks the arguments that the text shows: one object, or none. In a
// call by id it checks only the names; the tool itself reports missing ones.
func (c *checker) arguments(tool *bridge.Tool, list []ast.Expression, start int, byID bool) *bridge.Failure {
	if tool.Kind == "cli" || len(list) > 1 {
		return nil
	}
	given := map[string]bool{}
	if len(list) == 1 {
		object, ok := list[0].(*ast.ObjectLiteral)
		if !ok {
			return nil
		}
		for _, property := range object.Value {
			name, ok := propertyName(property)
			if !ok {
				return nil // computed or spread: known only at run time
			}
			given[name] = true
			known := slices.ContainsFunc(tool.Parameters, func(p bridge.Parameter) bool { return p.Name == name })
			if !known && !tool.Open {
				if !byID && len(tool.Parameters) > 0 && tool.Parameters[0].Type == "object" {
					return nil // the object may itself be the first argument
				}
				return c.program.fail(bridge.FailCheck, at(property.Idx0()), "WrongArgument", "%s has no argument %s: call it as %s", tool.ID, name, shape(tool))
			}
			if wrong := misfit(tool, name, property); wrong != "" {
				return c.program.fail(bridge.FailCheck, at(property.Idx0()), "WrongArgument", "%s", wrong)
			}
		}
	}
	for _, p := range tool.Parameters {
		if p.Required && !given[p.Name] && !byID {
			return c.program.fail(bridge.FailCheck, start, "WrongArgument", "%s needs the argument %s: call it as %s", tool.ID, p.Name, shape(tool))
		}
	}
	return nil
}

// misfit checks the value of a property if it is a literal.
func misfit(tool *bridge.Tool, name string, p ast.Property) string {
	keyed, ok := p.(*ast.PropertyKeyed)
	if !ok {
		return ""
	}
	value, ok := keyed.Value.(*ast.StringLiteral)
	if !ok {
		return ""
	}
	return tool.Misfit(name, string(value.Value))
}

func propertyName(p ast.Property) (string, bool) {
	switch n := p.(type) {
	case *ast.PropertyShort:
		return string(n.Name.Name), true
	case *ast.PropertyKeyed:
		if key, ok := n.Key.(*ast.StringLiteral); ok && !n.Computed {
			return string(key.Value), true
		}
	}
	return "", false
}

// misused reports whether a promise is used where only its value makes sense.
func misused(node ast.Expression, parent any, tool *bridge.Tool) bool {
	switch n := parent.(type) {
	case *ast.BinaryExpression, *ast.TemplateLiteral, *ast.SpreadElement:
		return true
	case *ast.UnaryExpression:
		return n.Operator.String() != "void"
	case *ast.ForOfStatement:
		return n.Source == node
	case *ast.ForInStatement:
		return n.Source == node
	case *ast.BracketExpression:
		return n.Left == node
	case *ast.DotExpression:
		if n.Left != node {
			return false
		}
		ofPromise := []string{"then", "catch", "finally"}
		if tool.Kind == "cli" {
			ofPromise = append(ofPromise, "text", "lines", "json")
		}
		return !slices.Contains(ofPromise, string(n.Identifier.Name))
	}
	return false
}

// unawaited finds variables that hold a call and are never used again.
func (c *checker) unawaited(s *syntax) *bridge.Failure {
	uses := map[string]int{}
	first := map[string]int{}
	for _, statement := range s.body {
		walk(statement, nil, func(node, _ any) bool {
			if n, ok := node.(*ast.Identifier); ok && c.pending[string(n.Name)] != nil {
				if uses[string(n.Name)] == 0 {
					first[string(n.Name)] = at(n.Idx)
				}
				uses[string(n.Name)]++
			}
			return true
		})
	}
	for name, tool := range c.pending {
		if uses[name] == 1 {
			return c.program.fail(bridge.FailCheck, first[name], "ForgottenAwait", "%s is never awaited: write const %s = %s", name, name, shape(tool))
		}
	}
	return nil
}

// shape returns how to call a tool.
func shape(t *bridge.Tool) string {
	parts := make([]string, 0, len(t.Parameters)+1)
	for _, p := range t.Parameters {
		typ := p.Type
		if typ == "" {
			typ = "any"
		}
		mark := "?: "
		if p.Required {
			mark = ": "
		}
		parts = append(parts, p.Name+mark+typ)
	}
	if t.Open {
		parts = append(parts, "…")
	}
	inside := ""
	if len(parts) > 0 {
		inside = "{" + strings.Join(parts, ", ") + "}"
	}
	return "await tools." + strings.Join(t.Path, ".") + "(" + inside + ")"
}

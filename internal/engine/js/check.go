package js

import (
	"slices"
	"strings"

	"github.com/dop251/goja/ast"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/nearest"
)

// check returns the first call that must be a mistake: of an unknown tool, with wrong arguments,
// or without await. It reports only mistakes that are certain from the text.
func (p *Program) check(s *syntax, given bridge.Program) *bridge.Failure {
	tools := given.Tools
	if len(tools) == 0 && len(given.Unknown) == 0 {
		return nil
	}
	c := &checker{program: p, unknown: given.Unknown, names: map[string]*bridge.Tool{}, members: map[string][]string{}, declared: map[string]bool{}, pending: map[string]*bridge.Tool{}}
	for i := range tools {
		c.addTool(&tools[i])
	}
	for _, statement := range s.body {
		walk(statement, nil, c.declare)
	}
	for _, statement := range s.body {
		walk(statement, nil, c.forgetReassigned)
	}
	for i, statement := range s.body {
		c.lastStatement = i == len(s.body)-1
		walk(statement, nil, c.visit)
		if c.failure != nil {
			return c.failure
		}
	}
	return c.findUnawaited(s)
}

type checker struct {
	program       *Program
	unknown       bridge.Map              // as in bridge.Program
	names         map[string]*bridge.Tool // by every known path
	members       map[string][]string     // names below a path
	declared      map[string]bool         // names that the author's code declares
	pending       map[string]*bridge.Tool // variables that hold a call not awaited
	lastStatement bool
	failure       *bridge.Failure
}

func (c *checker) addTool(t *bridge.Tool) {
	c.names[t.ID] = t
	paths := append([][]string{append([]string{"tools"}, t.Path...)}, t.Globals...)
	for _, path := range paths {
		full := strings.Join(path, ".")
		c.names[full] = t
		if space := strings.Join(path[:len(path)-1], "."); space != "" && t.Kind != "cli" {
			c.members[space] = append(c.members[space], path[len(path)-1])
		}
	}
}

// forgetReassigned removes variables from pending that may hold another value when they are used:
// those declared more than once, or assigned again.
func (c *checker) forgetReassigned(node, _ any) bool {
	if n, ok := node.(*ast.AssignExpression); ok {
		for _, name := range memberPath(n.Left) {
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
		again := ok && c.declared[string(name.Name)]
		c.declareTarget(n.Target)
		if again {
			delete(c.pending, string(name.Name))
		} else if ok {
			if call, ok := n.Initializer.(*ast.CallExpression); ok {
				if tool, _ := c.calledTool(call); tool != nil {
					c.pending[string(name.Name)] = tool
				}
			}
		}
	case *ast.FunctionLiteral:
		if n.Name != nil {
			c.declared[string(n.Name.Name)] = true
		}
	case *ast.ClassLiteral:
		if n.Name != nil {
			c.declared[string(n.Name.Name)] = true
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
			c.declared[string(n.Name)] = true
		case *ast.PropertyShort:
			c.declared[string(n.Name.Name)] = true
		}
		return true
	})
}

// memberPath returns the names of an expression such as tools.github.search.
func memberPath(e ast.Expression) []string {
	switch n := e.(type) {
	case *ast.Identifier:
		return []string{string(n.Name)}
	case *ast.DotExpression:
		if left := memberPath(n.Left); left != nil {
			return append(left, string(n.Identifier.Name))
		}
	case *ast.BracketExpression:
		key, ok := n.Member.(*ast.StringLiteral)
		if left := memberPath(n.Left); ok && left != nil {
			return append(left, string(key.Value))
		}
	}
	return nil
}

// calledTool returns the tool that an expression calls. If there is no such tool, space is the
// known namespace in which it was looked up.
func (c *checker) calledTool(call *ast.CallExpression) (tool *bridge.Tool, space string) {
	names := memberPath(call.Callee)
	if len(names) == 0 || c.declared[names[0]] {
		return nil, ""
	}
	if isCallByID(names) {
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
	if len(c.members[space]) == 0 {
		space = ""
	}
	return nil, space
}

func isCallByID(names []string) bool { return len(names) == 1 && names[0] == "call_tool" }

// unknownTool returns the failure for a call of a tool that does not exist, or nil.
func (c *checker) unknownTool(call *ast.CallExpression) *bridge.Failure {
	names := memberPath(call.Callee)
	if len(names) == 0 || c.declared[names[0]] {
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
	return c.program.failureAt(bridge.FailCheck, offsetOf(call.Callee.Idx0()), "UnknownTool", "%s", reason)
}

// literalID returns the id passed to call_tool or run, if it is a literal.
func literalID(call *ast.CallExpression) (string, bool) {
	if names := memberPath(call.Callee); len(names) != 1 || names[0] != "call_tool" && names[0] != "run" || len(call.ArgumentList) == 0 {
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
		c.checkCall(n, parent)
	case *ast.Identifier:
		if tool := c.pending[string(n.Name)]; tool != nil && c.failure == nil && usesPromiseAsValue(n, parent, tool) {
			c.failure = c.program.failureAt(bridge.FailCheck, offsetOf(n.Idx), "ForgottenAwait",
				"%s holds a promise, since the call that made it was not awaited: write const %s = %s", n.Name, n.Name, callSyntax(tool))
		}
	}
	return c.failure == nil
}

func (c *checker) checkCall(call *ast.CallExpression, parent any) {
	start := offsetOf(call.Callee.Idx0())
	if c.failure = c.unknownTool(call); c.failure != nil {
		return
	}
	tool, space := c.calledTool(call)
	list := call.ArgumentList
	if id, is := literalID(call); is {
		if list = list[1:]; tool == nil && !c.declared["run"] {
			if t := c.names[id]; t != nil { // run, which returns its answer at once
				c.failure = c.checkArguments(t, list, start, true)
				return
			}
		}
	}
	switch {
	case tool != nil:
		c.failure = c.checkArguments(tool, list, start, isCallByID(memberPath(call.Callee)))
		statement, discarded := parent.(*ast.ExpressionStatement)
		discarded = discarded && !(c.lastStatement && statement.Expression == ast.Expression(call))
		if c.failure == nil && (discarded || usesPromiseAsValue(call, parent, tool)) {
			c.failure = c.program.failureAt(bridge.FailCheck, start, "ForgottenAwait",
				"a call of %s returns a promise: write %s", tool.ID, callSyntax(tool))
		}
	case space != "":
		names := memberPath(call.Callee)
		wrong := names[len(names)-1]
		message := "there is no tool " + strings.Join(names, ".")
		if meant, ok := nearest.Of(wrong, c.members[space]); ok {
			message += ": did you mean " + callSyntax(c.names[space+"."+meant]) + "?"
		} else {
			known := slices.Clone(c.members[space])
			slices.Sort(known)
			message += ": of " + space + " this program has " + strings.Join(slices.Compact(known), ", ") + "; search_tools finds others"
		}
		c.failure = c.program.failureAt(bridge.FailCheck, start, "UnknownTool", "%s", message)
	}
}

// checkArguments checks the arguments if they are one object literal, or none. In a call by id it
// checks only their names; the tool itself reports missing ones.
func (c *checker) checkArguments(tool *bridge.Tool, list []ast.Expression, start int, byID bool) *bridge.Failure {
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
				return c.program.failureAt(bridge.FailCheck, offsetOf(property.Idx0()), "WrongArgument", "%s has no argument %s: call it as %s", tool.ID, name, callSyntax(tool))
			}
			if wrong := literalMisfit(tool, name, property); wrong != "" {
				return c.program.failureAt(bridge.FailCheck, offsetOf(property.Idx0()), "WrongArgument", "%s", wrong)
			}
		}
	}
	for _, p := range tool.Parameters {
		if p.Required && !given[p.Name] && !byID {
			return c.program.failureAt(bridge.FailCheck, start, "WrongArgument", "%s needs the argument %s: call it as %s", tool.ID, p.Name, callSyntax(tool))
		}
	}
	return nil
}

// literalMisfit returns what is wrong with the value of a property if it is a literal, or "".
func literalMisfit(tool *bridge.Tool, name string, p ast.Property) string {
	keyed, ok := p.(*ast.PropertyKeyed)
	if !ok {
		return ""
	}
	value, ok := keyed.Value.(*ast.StringLiteral)
	if !ok {
		return ""
	}
	return tool.ArgumentProblem(name, string(value.Value))
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

// usesPromiseAsValue reports whether the promise of a call is used where only the tool's result
// makes sense.
func usesPromiseAsValue(node ast.Expression, parent any, tool *bridge.Tool) bool {
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

// findUnawaited returns a failure if a variable holds the promise of a call and is never used.
func (c *checker) findUnawaited(s *syntax) *bridge.Failure {
	uses := map[string]int{}
	first := map[string]int{}
	for _, statement := range s.body {
		walk(statement, nil, func(node, _ any) bool {
			if n, ok := node.(*ast.Identifier); ok && c.pending[string(n.Name)] != nil {
				if uses[string(n.Name)] == 0 {
					first[string(n.Name)] = offsetOf(n.Idx)
				}
				uses[string(n.Name)]++
			}
			return true
		})
	}
	for name, tool := range c.pending {
		if uses[name] == 1 {
			return c.program.failureAt(bridge.FailCheck, first[name], "ForgottenAwait", "%s is never awaited: write const %s = %s", name, name, callSyntax(tool))
		}
	}
	return nil
}

// callSyntax returns a call of a tool as an author should write it.
func callSyntax(t *bridge.Tool) string {
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

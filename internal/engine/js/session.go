package js

import (
	"slices"
	"strings"

	"github.com/dop251/goja/ast"

	"github.com/toolroom/toolroom/bridge"
)

// In a session the names that a program declares at its top level stay: they become
// properties of the global object. The source of such a program is a list of the
// names and the function. In the function
//
//
//	const x = 1, {a} = o   is   ;0,x = 1, {a} = o
//	class A {}             is   ;A=class A {};
//	function f() {}        is   f=function f() {}; at its beginning
//
// so that functions see what a later run redeclares, as in a notebook.

// wrapForSession rewrites the program so that its declarations outlive the run. The guest reports
// a declaration of the name of a tool or of the runtime.
func (p *Program) wrapForSession(s *syntax) {
	var names []string
	var moved, pieces []piece
	from := s.open
	keep := func(to int) {
		pieces = append(pieces, piece{from: from, to: to})
		from = to
	}
	replace := func(start, end int, text string) {
		keep(start)
		pieces = append(pieces, piece{from: start, text: text})
		from = end
	}
	value := s.returnLastValue()
	for _, statement := range s.body {
		for len(value) > 0 && value[0].at < offsetOf(statement.Idx1()) && value[0].at >= from {
			replace(value[0].at, value[0].at, value[0].insert)
			value = value[1:]
		}
		switch n := statement.(type) {
		case *ast.VariableStatement:
			names = append(names, declaredNames(n.List)...)
			replace(offsetOf(n.Var), offsetOf(n.Var)+len("var"), ";0,")
		case *ast.LexicalDeclaration:
			names = append(names, declaredNames(n.List)...)
			replace(offsetOf(n.Idx), offsetOf(n.Idx)+len(n.Token.String()), ";0,")
			for _, binding := range n.List {
				if binding.Initializer == nil {
					replace(offsetOf(binding.Idx1()), offsetOf(binding.Idx1()), "=void 0")
				}
			}
		case *ast.ClassDeclaration:
			name := string(n.Class.Name.Name)
			names = append(names, name)
			replace(offsetOf(n.Idx0()), offsetOf(n.Idx0()), ";"+name+"=")
			replace(offsetOf(n.Idx1()), offsetOf(n.Idx1()), ";")
		case *ast.FunctionDeclaration:
			name := string(n.Function.Name.Name)
			names = append(names, name)
			moved = append(moved,
				piece{from: offsetOf(n.Idx0()), text: "\n" + name + "="}, piece{from: offsetOf(n.Idx0()), to: offsetOf(n.Idx1())}, piece{from: offsetOf(n.Idx1()), text: ";"})
			replace(offsetOf(n.Idx0()), offsetOf(n.Idx1()), ";")
		}
	}
	keep(len(s.source))
	slices.Sort(names)
	list := ""
	if names = slices.Compact(names); len(names) > 0 {
		list = `"` + strings.Join(names, `","`) + `"`
	}
	// The engine may know only the line in which a function begins, so each moved
	// function begins a line.
	if len(moved) > 0 {
		moved = append(moved, piece{from: s.open, text: "\n"})
	}
	head := []piece{{text: "[[" + list + "],"}, {to: s.open}}
	p.assemble(slices.Concat(head, moved, pieces, []piece{{from: len(s.source), text: "]"}}), s.source)
}

// declaredNames returns the names of a declaration.
func declaredNames(list []*ast.Binding) []string {
	var names []string
	for _, binding := range list {
		names = appendNames(names, binding.Target)
	}
	return names
}

func appendNames(names []string, target ast.Expression) []string {
	switch n := target.(type) {
	case *ast.Identifier:
		return append(names, string(n.Name))
	case *ast.AssignExpression: // with a default
		return appendNames(names, n.Left)
	case *ast.ArrayPattern:
		for _, element := range n.Elements {
			names = appendNames(names, element)
		}
		return appendNames(names, n.Rest)
	case *ast.ObjectPattern:
		for _, property := range n.Properties {
			switch n := property.(type) {
			case *ast.PropertyShort:
				names = append(names, string(n.Name.Name))
			case *ast.PropertyKeyed:
				names = appendNames(names, n.Value)
			}
		}
		return appendNames(names, n.Rest)
	}
	return names
}

// checkDeclarations returns a failure if the declarations of a session's program cannot be found.
func (p *Program) checkDeclarations() *bridge.Failure {
	f := p.failureAt(bridge.FailSyntax, 0, "SyntaxError", "the session cannot find what this program declares, because it uses syntax that is too new")
	f.Line, f.Column = 0, 0
	return f
}

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

// persist rearranges the program for a session. The guest reports an attempt to
// declare a name of a tool or of the runtime.
func (p *Program) persist(s *syntax) {
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
	value := s.lastValue()
	for _, statement := range s.body {
		for len(value) > 0 && value[0].at < at(statement.Idx1()) && value[0].at >= from {
			replace(value[0].at, value[0].at, value[0].insert)
			value = value[1:]
		}
		switch n := statement.(type) {
		case *ast.VariableStatement:
			names = append(names, declared(n.List)...)
			replace(at(n.Var), at(n.Var)+len("var"), ";0,")
		case *ast.LexicalDeclaration:
			names = append(names, declared(n.List)...)
			replace(at(n.Idx), at(n.Idx)+len(n.Token.String()), ";0,")
			for _, binding := range n.List {
				if binding.Initializer == nil {
					replace(at(binding.Idx1()), at(binding.Idx1()), "=void 0")
				}
			}
		case *ast.ClassDeclaration:
			name := string(n.Class.Name.Name)
			names = append(names, name)
			replace(at(n.Idx0()), at(n.Idx0()), ";"+name+"=")
			replace(at(n.Idx1()), at(n.Idx1()), ";")
		case *ast.FunctionDeclaration:
			name := string(n.Function.Name.Name)
			names = append(names, name)
			moved = append(moved,
				piece{from: at(n.Idx0()), text: "\n" + name + "="}, piece{from: at(n.Idx0()), to: at(n.Idx1())}, piece{from: at(n.Idx1()), text: ";"})
			replace(at(n.Idx0()), at(n.Idx1()), ";")
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

// declared returns the names of a declaration.
func declared(list []*ast.Binding) []string {
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

// apart refuses a session's program whose declarations cannot be found.
func (p *Program) apart() *bridge.Failure {
	f := p.fail(bridge.FailSyntax, 0, "SyntaxError", "the session cannot find what this program declares, because it uses syntax that is too new")
	f.Line, f.Column = 0, 0
	return f
}

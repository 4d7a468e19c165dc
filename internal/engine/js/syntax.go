package js

import (
	"reflect"
	"strings"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/parser"
)

// syntax is the syntax tree of a program.
type syntax struct {
	source string
	open   int             // where the body of the function around the author's text begins
	body   []ast.Statement // of that function
}

func parse(source string) (*syntax, error) {
	tree, err := parser.ParseFile(nil, "", source, 0, parser.WithDisableSourceMaps)
	if err != nil {
		return nil, err
	}
	if len(tree.Body) == 1 {
		if statement, ok := tree.Body[0].(*ast.ExpressionStatement); ok {
			if function, ok := statement.Expression.(*ast.ArrowFunctionLiteral); ok {
				if block, ok := function.Body.(*ast.BlockStatement); ok {
					return &syntax{source, offsetOf(block.LeftBrace) + 1, block.List}, nil
				}
			}
		}
	}
	// The text closes the function around it, which the engine reports.
	return &syntax{source: source}, nil
}

// offsetOf returns the byte offset of a node.
func offsetOf(index file.Idx) int { return int(index) - 1 }

// returnLastValue returns the edits that make a program return the value of its last expression.
// There are none if the program has a return statement.
func (s *syntax) returnLastValue() []edit {
	if len(s.body) == 0 {
		return nil
	}
	last, ok := s.body[len(s.body)-1].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	returns := false
	for _, statement := range s.body {
		walk(statement, nil, func(node, _ any) bool {
			switch node.(type) {
			case *ast.ReturnStatement:
				returns = true
			case *ast.FunctionLiteral, *ast.ArrowFunctionLiteral, *ast.ClassLiteral:
				return false
			}
			return true
		})
	}
	if _, assigns := last.Expression.(*ast.AssignExpression); assigns || returns {
		return nil
	}
	// The tree omits parentheses, so they are found in the text.
	start := offsetOf(last.Expression.Idx0())
	for {
		before := strings.TrimRight(s.source[:start], " \t\r\n")
		if !strings.HasSuffix(before, "(") {
			return []edit{{start, 0, "return "}}
		}
		start = len(before) - 1
	}
}

// walk visits a tree, each node with its parent and before its children. If visit returns false,
// walk skips the children.
func walk(node, parent any, visit func(node, parent any) bool) {
	value := reflect.ValueOf(node)
	if !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return
	}
	if value.Kind() == reflect.Pointer {
		if !visit(node, parent) {
			return
		}
		parent, value = node, value.Elem()
	}
	if value.Kind() != reflect.Struct {
		return
	}
	for i := range value.NumField() {
		walkField(value.Field(i), value.Type().Field(i), parent, visit)
	}
}

func walkField(field reflect.Value, of reflect.StructField, parent any, visit func(node, parent any) bool) {
	// Functions list declarations again, and files are not part of the tree.
	if !of.IsExported() || of.Name == "DeclarationList" || of.Name == "File" {
		return
	}
	switch field.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !field.IsNil() {
			walk(field.Interface(), parent, visit)
		}
	case reflect.Slice:
		for i := range field.Len() {
			item := field.Index(i)
			switch item.Kind() {
			case reflect.Interface, reflect.Pointer:
				if !item.IsNil() {
					walk(item.Interface(), parent, visit)
				}
			case reflect.Struct:
				walk(item.Interface(), parent, visit)
			}
		}
	case reflect.Struct:
		walk(field.Interface(), parent, visit)
	}
}

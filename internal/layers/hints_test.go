package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command matches a command of the command line.
var command = regexp.MustCompile(`\btoolroom [a-z]+(?: login)?`)

// TestHintsForEveryoneHaveNoCommands looks at the hints of errors that every surface shows.
// A model or a program cannot type a command, so those belong into WithCLIHint. How a
// person approves or logs in is the exception: a client tells its user, and can go on.
func TestHintsForEveryoneHaveNoCommands(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	seen := 0
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "cli" && filepath.Dir(path) == "internal" || entry.Name() == "testdata" || entry.Name() == "node_modules" || path == "test" || path == "packaging" || path == "examples"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, hint := range hintsOf(n) {
				seen++
				for _, found := range command.FindAllString(hint.Value, -1) {
					if found != "toolroom approve" && found != "toolroom sources login" {
						t.Errorf("%s: a hint for everyone has the command %q; put it into WithCLIHint", files.Position(hint.Pos()), found)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Errorf("only %d hints were found", seen)
	}
}

// hintsOf returns the literals in a call of WithHint, or in a value given to a field Hint.
func hintsOf(n ast.Node) []*ast.BasicLit {
	var from []ast.Expr
	switch n := n.(type) {
	case *ast.CallExpr:
		if of, ok := n.Fun.(*ast.SelectorExpr); ok && of.Sel.Name == "WithHint" {
			from = n.Args
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Hint" {
			from = []ast.Expr{n.Value}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if of, ok := left.(*ast.SelectorExpr); ok && of.Sel.Name == "Hint" && len(n.Rhs) == len(n.Lhs) {
				from = append(from, n.Rhs[i])
			}
		}
	}
	var literals []*ast.BasicLit
	for _, e := range from {
		ast.Inspect(e, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				literals = append(literals, literal)
			}
			return true
		})
	}
	return literals
}

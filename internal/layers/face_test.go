package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// public returns the folders of the packages that Go programs can import.
func public(t *testing.T) (folders []string) {
	for _, p := range list(t) {
		folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		top, _, _ := strings.Cut(folder, "/")
		if p.Name != "main" && !slices.Contains([]string{"cmd", "docs", "drivers", "examples", "internal", "packaging", "test"}, top) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// A program cannot name a type of an internal package, so no exported function, method,
// field, type, variable or constant of a public package may need one.
func TestNoExportedSignatureNamesAnInternalType(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, folder := range public(t) {
		files := token.NewFileSet()
		names, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			for _, at := range leaks(file) {
				t.Errorf("%s names an internal type", files.Position(at))
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d files were read", seen)
	}
	leaky, err := parser.ParseFile(token.NewFileSet(), "leaky.go", `package leaky
import ("example.com/x/internal/run"; out "example.com/x")
type Alias = run.Job
type Holder struct { Job *run.Job; inner run.Job; run.Step }
type Face interface { Do(run.Call) }
func (Holder) Take(func(run.Job)) []run.Job { var _ run.Job; return nil }
func (hidden) Take(run.Job) {}
func helper(run.Job) {}
func Fine(out.Job) { _ = run.Job{} }
var Made run.Job
`, parser.SkipObjectResolution)
	if found := leaks(leaky); err != nil || len(found) != 7 {
		t.Errorf("in a leaky file %d leaks are found, %v", len(found), err)
	}
}

// leaks returns where the exported declarations of a file name an internal package.
func leaks(file *ast.File) (found []token.Pos) {
	internal := map[string]bool{}
	for _, i := range file.Imports {
		where, err := strconv.Unquote(i.Path.Value)
		if err != nil || !strings.Contains(where+"/", "/internal/") {
			continue
		}
		name := path.Base(where)
		if i.Name != nil {
			name = i.Name.Name
		}
		internal[name] = true
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exported(d.Recv.List[0].Type)) {
				found = append(found, names(d.Type, internal)...)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() {
						found = append(found, names(spec, internal)...)
					}
				case *ast.ValueSpec:
					if spec.Type != nil && slices.ContainsFunc(spec.Names, (*ast.Ident).IsExported) {
						found = append(found, names(spec.Type, internal)...)
					}
				}
			}
		}
	}
	return found
}

// exported reports whether the type of a receiver is.
func exported(receiver ast.Expr) bool {
	ok := false
	ast.Inspect(receiver, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && !ok {
			ok = name.IsExported()
			return false
		}
		return true
	})
	return ok
}

// names returns where n names an internal package, but for unexported fields.
func names(n ast.Node, internal map[string]bool) (found []token.Pos) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
					found = append(found, names(f.Type, internal)...)
				}
			}
			return false
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && internal[of.Name] {
				found = append(found, n.Pos())
			}
			return false
		}
		return true
	})
	return found
}

// Each public package says by an example how it is used.
func TestEachPublicPackageHasAnExample(t *testing.T) {
	t.Parallel()
	for _, folder := range public(t) {
		if strings.HasPrefix(folder, "sandbox/sandboxtest/") {
			continue // programs of the suite
		}
		names, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(names, func(name string) bool {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(text), "\nfunc Example")
		}) {
			t.Errorf("%s has no example", folder)
		}
	}
}

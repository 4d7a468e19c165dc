package cli_test

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/secret"
)

func TestWhatTheCommandLinePrintsHasNoSecret(t *testing.T) {
	t.Parallel()
	const planted = "Xq7_9ZtWvk4mP2rL5Qs8uB8e"
	for _, args := range [][]string{
		{"call", "x:" + planted},
		{"call", "x:" + planted, "--json"},
		{"describe", planted},
		{"search", planted},
		{"search", planted, "--json"},
		{"policy", "explain", "x:" + planted},
		{"artifact", "read", planted},
		{"sources", "test", planted},
	} {
		var out bytes.Buffer
		p := cli.Program{
			In: strings.NewReader(""), Out: &out, Err: &out, Home: t.TempDir(), Dir: t.TempDir(),
			Open: func(ctx context.Context, o app.Options) (*app.App, error) {
				r, err := app.Open(ctx, o)
				if err == nil {
					err = r.Parts().Secrets.Set(ctx, secret.Ref{Scope: "evil", Name: "key"}, planted)
				}
				return r, err
			},
		}
		p.Run(t.Context(), args)
		if strings.Contains(out.String(), planted) {
			t.Errorf("%q printed %s", args, &out)
		}
	}
}

// All that is printed goes through the two pipes of the program.
func TestNoCommandPrintsToTheProcessItself(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch name := x.Name + "." + s.Sel.Name; name {
			case "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println":
				t.Errorf("%s uses %s; print with the screen", file, name)
			}
			return true
		})
	}
}

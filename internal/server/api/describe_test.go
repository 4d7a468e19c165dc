package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite fields.json from the comments of Go fields")

// The document describes each member of each request and answer, and each parameter: by the
// tag doc, or by the comment of the Go field, so that they are written once.
func TestEveryFieldOfTheDocumentIsDescribed(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	doc := s.api.OpenAPI()
	texts := map[string]string{}
	read := map[string]map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas.Map())) {
		typ := doc.Components.Schemas.TypeFromRef("#/components/schemas/" + name)
		if typ == nil {
			continue
		}
		eachField(typ, func(in reflect.Type, f reflect.StructField, _ string) {
			if f.Tag.Get("doc") != "" || !strings.HasPrefix(in.PkgPath(), modulePath) {
				return
			}
			if read[in.PkgPath()] == nil {
				read[in.PkgPath()] = fieldComments(t, in.PkgPath())
			}
			if text := read[in.PkgPath()][in.Name()+"."+f.Name]; text != "" {
				texts[fieldKey(in, f.Name)] = inJSON(in, text)
			}
		})
	}
	want, err := json.MarshalIndent(texts, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("fields.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Log("written; run the test again without -update")
		return
	}
	if !bytes.Equal(want, fieldTexts) {
		t.Error("fields.json is not what the comments say: go test ./internal/server/api -run Described -update")
	}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas.Map())) {
		schema := doc.Components.Schemas.Map()[name]
		for _, property := range slices.Sorted(maps.Keys(schema.Properties)) {
			if schema.Properties[property].Description == "" {
				t.Errorf("%s.%s has no description (%v)", name, property, doc.Components.Schemas.TypeFromRef("#/components/schemas/"+name))
			}
		}
	}
	for path, item := range doc.Paths {
		for _, o := range operations(item) {
			if o.Summary == "" || o.OperationID == "" {
				t.Errorf("%s has an operation without a summary or an id", path)
			}
			for _, p := range o.Parameters {
				if p.Description == "" {
					t.Errorf("%s: the parameter %s of %s has no description", path, p.Name, o.OperationID)
				}
			}
		}
	}
}

// Every registered route is in the document, apart from those for people and for probes.
func TestEveryRouteIsInTheDocument(t *testing.T) {
	t.Parallel()
	s := New(Options{Metrics: NewMetrics(MetricsOptions{})})
	doc := s.api.OpenAPI()
	undocumented := []string{"GET /docs", "GET /healthz", "GET /readyz", "GET /metrics", "GET " + Prefix + "/openapi.json", "GET " + Prefix + "/openapi.yaml"}
	seen := 0
	for _, pattern := range s.mux.patterns {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok { // the handler of unknown paths
			continue
		}
		seen++
		item := doc.Paths[path]
		if slices.Contains(undocumented, pattern) {
			continue
		}
		if item == nil || operations(item)[method] == nil {
			t.Errorf("%s is not in the document", pattern)
		}
	}
	all := len(undocumented)
	for _, item := range doc.Paths {
		all += len(operations(item))
	}
	if seen != all {
		t.Errorf("%d routes are registered, and the document and the exceptions have %d", seen, all)
	}
}

// inJSON writes the names of a struct's fields in a comment as its JSON has them.
func inJSON(t reflect.Type, text string) string {
	eachField(t, func(_ reflect.Type, f reflect.StructField, property string) {
		if f.Name != property {
			text = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(text, property)
		}
	})
	return text
}

// fieldComments returns the comments of the fields of a package's structs, by type and
// field. A comment that names the fields after it counts for them, too.
func fieldComments(t *testing.T, pkg string) map[string]string {
	t.Helper()
	folder := filepath.Join("..", "..", "..", strings.TrimPrefix(strings.TrimPrefix(pkg, modulePath), "/"))
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			last := ""
			for _, f := range fields.Fields.List {
				text := f.Doc.Text() + f.Comment.Text()
				for _, name := range f.Names {
					if text == "" && regexp.MustCompile(`\b`+name.Name+`\b`).MatchString(last) {
						text = last
					}
					texts[spec.Name.Name+"."+name.Name] = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
				}
				if text != "" {
					last = text
				}
			}
			return true
		})
	}
	return texts
}

package api

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

// docOperation is an operation as the page at /docs shows it.
type docOperation struct {
	Method, Path, ID, Summary string
	Parameters                []*huma.Param
	Body, Answer              string // names of schemas
}

// docSchema is a schema on that page.
type docSchema struct {
	Name, Text string
	Fields     []docField
}

type docField struct {
	Name, Type, Ref, Text string
	Required              bool
}

// routeDocs serves a page that describes all routes registered before. It has no scripts.
func (s *Server) routeDocs() {
	page := sync.OnceValue(func() []byte { return docsPage(s.api.OpenAPI()) })
	s.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		_, _ = w.Write(page()) // an error means that the client has gone
	})
}

func docsPage(doc *huma.OpenAPI) []byte {
	groups := map[string][]docOperation{}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		item := doc.Paths[path]
		for method, o := range operations(item) {
			one := docOperation{Method: method, Path: path, ID: o.OperationID, Summary: o.Summary, Parameters: o.Parameters}
			if o.RequestBody != nil {
				one.Body = schemaOf(o.RequestBody.Content)
			}
			for _, status := range []string{"200", "201", "202"} {
				if r := o.Responses[status]; r != nil && one.Answer == "" {
					one.Answer = schemaOf(r.Content)
				}
			}
			tag := "other"
			if len(o.Tags) > 0 {
				tag = o.Tags[0]
			}
			groups[tag] = append(groups[tag], one)
		}
	}
	for _, list := range groups {
		slices.SortFunc(list, func(a, b docOperation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	}
	var schemas []docSchema
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas.Map())) {
		schemas = append(schemas, describeSchema(name, doc.Components.Schemas.Map()[name]))
	}
	var body bytes.Buffer
	err := template.Must(template.New("docs").Parse(docsHTML)).Execute(&body, map[string]any{"Groups": groups, "Schemas": schemas, "Info": doc.Info, "Prefix": Prefix})
	if err != nil { // a programming error in the template
		panic(err)
	}
	return body.Bytes()
}

func schemaOf(content map[string]*huma.MediaType) string {
	if c := content["application/json"]; c != nil && c.Schema != nil {
		return refName(c.Schema)
	}
	return ""
}

func refName(s *huma.Schema) string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

func describeSchema(name string, s *huma.Schema) docSchema {
	d := docSchema{Name: name, Text: s.Description}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		f := docField{Name: key, Type: p.Type, Ref: refName(p), Text: p.Description, Required: slices.Contains(s.Required, key)}
		if p.Items != nil {
			f.Type, f.Ref = "list of "+p.Items.Type, refName(p.Items)
		}
		d.Fields = append(d.Fields, f)
	}
	return d
}

package api

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// fieldTexts holds the comments of Go fields, by package, type and field. A test writes it: go test ./internal/server/api -run Described -update.
//
//go:embed fields.json
var fieldTexts []byte

// nameTexts holds the meaning of names that many types and parameters share.
//
//go:embed names.json
var nameTexts []byte

const modulePath = "github.com/toolroom/toolroom"

// fieldKey names a field in fieldTexts.
func fieldKey(t reflect.Type, field string) string {
	return strings.TrimPrefix(strings.TrimPrefix(t.PkgPath(), modulePath), "/") + "." + t.Name() + "." + field
}

// describe sets the missing descriptions of properties and parameters: from the Go field's
// comment, or else from the meaning of its name.
func describe(doc *huma.OpenAPI) {
	var texts, names map[string]string
	if err := errors.Join(json.Unmarshal(fieldTexts, &texts), json.Unmarshal(nameTexts, &names)); err != nil {
		panic(err) // the files are part of the program
	}
	schemas := doc.Components.Schemas
	for name, schema := range schemas.Map() {
		t := schemas.TypeFromRef("#/components/schemas/" + name)
		if t == nil {
			continue
		}
		eachField(t, func(in reflect.Type, f reflect.StructField, property string) {
			if p := schema.Properties[property]; p != nil && p.Description == "" {
				p.Description = cmp.Or(texts[fieldKey(in, f.Name)], names[property])
			}
		})
	}
	for _, item := range doc.Paths {
		for _, o := range operations(item) {
			for _, p := range o.Parameters {
				p.Description = cmp.Or(p.Description, names[p.Name])
			}
		}
	}
}

// operations returns the operations of a path by their methods.
func operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete}
	maps.DeleteFunc(all, func(_ string, o *huma.Operation) bool { return o == nil })
	return all
}

// eachField visits the fields of a struct that are members of its JSON, including those of
// embedded structs.
func eachField(t reflect.Type, visit func(in reflect.Type, f reflect.StructField, property string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for f := range t.Fields() {
		property, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case property == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && property == "":
			eachField(f.Type, visit)
		default:
			property = cmp.Or(property, f.Name)
			visit(t, f, property)
		}
	}
}

package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// inputSchema builds the schema of a tool's arguments.
type inputSchema struct {
	properties map[string]any
	required   []string
	uses       []*definition
	// open means that further arguments are accepted, which go into the body. additional is
	// their schema.
	open       bool
	additional any
}

func (s *inputSchema) add(name string, schema any, required bool) {
	s.properties[name] = schema
	if required {
		s.required = append(s.required, name)
	}
}

func (s *inputSchema) object() map[string]any {
	out := map[string]any{"type": "object", "properties": s.properties}
	if len(s.required) > 0 {
		out["required"] = slices.Compact(slices.Sorted(slices.Values(s.required)))
	}
	if !s.open {
		out["additionalProperties"] = false
	} else if s.additional != nil {
		out["additionalProperties"] = s.additional
	}
	return out
}

// permissive replaces a schema that is too large and keeps only its names.
func (s *inputSchema) permissive() map[string]any {
	properties := map[string]any{}
	for name := range s.properties {
		properties[name] = map[string]any{}
	}
	return (&inputSchema{properties: properties, required: s.required, open: s.open}).object()
}

// input merges the parameters and the body of an operation into one schema.
func (i *importer) input(o *operation, item, n *Node) error {
	schema := &inputSchema{properties: map[string]any{}}
	if err := i.parameters(o, schema, item, n); err != nil {
		return err
	}
	if err := i.body(o, schema, n); err != nil {
		return err
	}
	encoded, err := schemaText(schema.object(), schema.uses)
	if errors.Is(err, errTooLarge) {
		encoded, err = schemaText(schema.permissive(), nil)
		o.addNote("The schema of the arguments is left out, because %v.", errTooLarge)
	}
	o.tool.InputSchema = encoded
	return err
}

// parameters reads the parameters of the operation and of its path. Those of the operation
// take precedence.
func (i *importer) parameters(o *operation, schema *inputSchema, item, n *Node) error {
	type key struct{ in, name string }
	seen := map[key]bool{}
	for _, p := range slices.Concat(n.Get("parameters").Items(), item.Get("parameters").Items()) {
		if err := i.requests.spend(); err != nil {
			return err
		}
		p, err := i.set.Resolve(p)
		if err != nil {
			return err
		}
		k := key{p.Get("in").Text(), p.Get("name").Text()}
		if k.name == "" || seen[k] {
			continue
		}
		seen[k] = true
		if err := i.parameter(o, schema, k.in, k.name, p); err != nil {
			return err
		}
	}
	// A template without a parameter would remain in the URL.
	for _, name := range o.templates() {
		if !seen[key{"path", name}] {
			if err := i.parameter(o, schema, "path", name, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxUnderscores limits the underscores that distinguish arguments of one name. Further
// arguments are distinguished by a number.
const maxUnderscores = 8

func (i *importer) parameter(o *operation, schema *inputSchema, in, name string, n *Node) error {
	switch in {
	case "path":
		if !slices.Contains(o.templates(), name) {
			return nil
		}
	case "header":
		if strings.EqualFold(name, "Idempotency-Key") {
			o.keyed = true
			return nil
		}
		// The specification defines these in other parts of the document.
		if slices.Contains([]string{"Accept", "Content-Type", "Authorization"}, http.CanonicalHeaderKey(name)) || !isHeaderName(name) {
			return nil
		}
	case "query":
	case "cookie":
		if !httpcall.IsToken(name) {
			return nil
		}
	default:
		return nil
	}

	p := parameter{argument: argumentName(name), name: name, in: in, style: n.Get("style").Text()}
	if _, taken := schema.properties[p.argument]; taken || p.argument == "" {
		p.argument = argumentName(in + "_" + name)
	}
	base := p.argument
	for n := 0; ; n++ {
		if _, taken := schema.properties[p.argument]; !taken {
			break
		}
		p.argument += "_"
		if n >= maxUnderscores { // thousands of equal names would grow without end
			p.argument = base + "_" + strconv.Itoa(len(schema.properties)+n)
		}
	}
	if p.style == "" {
		p.style = "simple"
		if in == "query" || in == "cookie" {
			p.style = "form"
		}
	}
	p.explode = p.style == "form"
	if explode := n.Get("explode"); explode.Kind() == KindBool {
		p.explode = explode.True()
	}

	typ := n.Get("schema")
	for name, media := range n.Get("content").Members() {
		p.json, typ = encodingOf(name) == jsonBody, media.Get("schema")
		break
	}
	converted, err := i.requests.convert(typ, &schema.uses)
	if err != nil {
		return err
	}
	schema.add(p.argument, describe(converted, n), in == "path" || n.Get("required").True())
	o.parameters = append(o.parameters, p)
	return nil
}

// describe adds a parameter's description to its schema.
func describe(schema any, n *Node) any {
	out, ok := schema.(map[string]any)
	if !ok {
		return schema
	}
	out = maps.Clone(out)
	if text := n.Get("description").Text(); text != "" && out["description"] == nil {
		out["description"] = text
	}
	if n.Get("deprecated").True() {
		out["deprecated"] = true
	}
	return out
}

// argumentName keeps the characters that model APIs accept in the name of an argument.
func argumentName(name string) string {
	const most = 64
	clean := cleanName(name)
	return clean[:min(len(clean), most)]
}

func isHeaderName(name string) bool { return httpcall.CheckHeader(name, "") == nil }

// templates returns the names of the {name} templates in the path and its query.
func (o *operation) templates() []string {
	names := templateNames(o.path)
	for _, name := range slices.Sorted(maps.Keys(o.query)) {
		for _, value := range o.query[name] {
			names = append(names, templateNames(value)...)
		}
	}
	return names
}

// templateNames returns the names of the {name} templates in a path.
func templateNames(path string) []string {
	var names []string
	for {
		_, after, found := strings.Cut(path, "{")
		if !found {
			return names
		}
		name, rest, found := strings.Cut(after, "}")
		if !found {
			return names
		}
		names, path = append(names, name), rest
	}
}

// wholeBody is the argument for a body that is not an object of fields.
const wholeBody = "body"

// body reads the request body: the fields of an object become arguments, unless
// one of them has the name of a parameter; anything else is one argument.
func (i *importer) body(o *operation, schema *inputSchema, n *Node) error {
	request, err := i.set.Resolve(n.Get("requestBody"))
	if err != nil || request == nil {
		return err
	}
	mediaType, media := chooseMedia(request.Get("content"))
	if mediaType == "" {
		return nil
	}
	o.body = &body{mediaType: mediaType, encoding: encodingOf(mediaType), required: request.Get("required").True()}
	if o.body.encoding == textBody || o.body.encoding == bytesBody {
		return i.rawBody(o, schema, request)
	}

	fields, err := i.fields(media.Get("schema"))
	if err != nil {
		return err
	}
	if !fields.merges(schema.properties) {
		return i.nestedBody(o, schema, request, media)
	}
	if err := i.formFields(o.body, media, fields); err != nil {
		return err
	}
	for _, f := range fields.list {
		converted, err := i.requests.convert(f.schema, &schema.uses)
		if err != nil {
			return err
		}
		if o.body.fields[f.name].binary {
			converted = base64Schema(converted)
		}
		// The fields of a body that may be left out cannot be required.
		schema.add(f.name, converted, o.body.required && fields.required[f.name])
	}
	schema.open = !fields.additional.False()
	if fields.additional.Kind() == KindMap {
		schema.additional, err = i.requests.convert(fields.additional, &schema.uses)
	}
	return err
}

func (i *importer) nestedBody(o *operation, schema *inputSchema, request, media *Node) error {
	if o.body.encoding == formBody || o.body.encoding == multipartBody {
		fields, err := i.allFields(media.Get("schema"))
		if err != nil {
			return err
		}
		if err := i.formFields(o.body, media, fields); err != nil {
			return err
		}
	}
	converted, err := i.requests.convert(media.Get("schema"), &schema.uses)
	if err != nil {
		return err
	}
	i.addBody(o, schema, describe(converted, request))
	var files []string
	for name, f := range o.body.fields {
		if f.binary && len(files) < maxListed {
			files = append(files, name)
		}
	}
	if len(files) > 0 {
		slices.Sort(files)
		o.addNote("Files in base64 in %s: %s.", o.body.argument, strings.Join(files, ", "))
	}
	return nil
}

// rawBody accepts a body that is text, or bytes in base64.
func (i *importer) rawBody(o *operation, schema *inputSchema, request *Node) error {
	converted := map[string]any{"type": "string"}
	if o.body.encoding == bytesBody {
		converted = base64Schema(converted)
	}
	i.addBody(o, schema, describe(converted, request))
	return nil
}

func (i *importer) addBody(o *operation, schema *inputSchema, converted any) {
	o.body.argument = wholeBody
	for _, taken := schema.properties[o.body.argument]; taken; _, taken = schema.properties[o.body.argument] {
		o.body.argument = "request_" + o.body.argument
	}
	schema.add(o.body.argument, converted, o.body.required)
}

func base64Schema(schema any) map[string]any {
	out := map[string]any{"type": "string", "contentEncoding": "base64"}
	if members, ok := schema.(map[string]any); ok && members["type"] == "array" {
		list := maps.Clone(members)
		list["items"] = base64Schema(members["items"])
		return list
	}
	if members, ok := schema.(map[string]any); ok && members["description"] != nil {
		out["description"] = fmt.Sprint(members["description"], " (base64)")
	}
	return out
}

// chooseMedia chooses the most descriptive media type: JSON, forms, text, then any
// other.
func chooseMedia(content *Node) (string, *Node) {
	var (
		chosen string
		best   *Node
	)
	for name, media := range content.Members() {
		if best == nil || encodingOf(name) < encodingOf(chosen) {
			chosen, best = name, media
		}
	}
	if chosen == "*/*" || chosen == "application/*" {
		chosen = "application/json"
	}
	if _, _, err := mime.ParseMediaType(chosen); err != nil {
		return "", nil
	}
	return chosen, best
}

func encodingOf(mediaType string) encoding {
	kind, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	switch kind = strings.TrimSpace(kind); {
	case kind == "application/json", strings.HasSuffix(kind, "+json"), kind == "*/*", kind == "application/*":
		return jsonBody
	case kind == "application/x-www-form-urlencoded":
		return formBody
	case kind == "multipart/form-data":
		return multipartBody
	case strings.HasPrefix(kind, "text/"), kind == "application/xml", strings.HasSuffix(kind, "+xml"):
		return textBody
	default:
		return bytesBody
	}
}

// isBinary reports whether a schema is that of a file.
func isBinary(schema *Node) bool {
	return schema.Get("format").Text() == "binary" || schema.Get("contentMediaType").Text() == "application/octet-stream"
}

// formFields reads the encodings of the properties of a form (OpenAPI 3.1, 4.8.15).
func (i *importer) formFields(b *body, media *Node, fields *fieldSet) error {
	if b.encoding != formBody && b.encoding != multipartBody {
		return nil
	}
	b.fields = map[string]formField{}
	for _, f := range fields.list {
		n := media.At("encoding", f.name)
		field := formField{mediaType: n.Get("contentType").Text(), style: cmp.Or(n.Get("style").Text(), "form")}
		field.explode = field.style == "form" // the default of other styles is false
		if explode := n.Get("explode"); explode != nil {
			field.explode = explode.True()
		}
		target, err := i.set.Resolve(f.schema)
		if err != nil {
			return err
		}
		if b.encoding == multipartBody {
			field.binary = isBinary(target)
			if items := target.Get("items"); !field.binary && items != nil {
				item, err := i.set.Resolve(items)
				if err != nil {
					return err
				}
				field.binary = isBinary(item)
			}
		}
		b.fields[f.name] = field
	}
	return nil
}

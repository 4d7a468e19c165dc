package openapi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
)

// isSwagger reports whether a root document is Swagger 2.0.
// Many documents write the version without quotes, so that YAML reads a number.
func isSwagger(root *Node) bool { return root.Get("swagger").textOrNone() == "2.0" }

// fromSwagger converts a root document from Swagger 2.0 to OpenAPI 3.0, in place. Other files
// that it refers to are not converted, so they may contain schemas only.
func fromSwagger(root *Node) error {
	c := &swaggerConverter{file: root.file, root: root, valuesLeft: maxValues}
	components := c.mapping()
	move := func(from, to string, convert func(*Node) *Node) {
		section := c.mapping()
		for name, member := range root.Get(from).Members() {
			if converted := convert(member); converted != nil {
				section.setMember(name, converted)
			}
		}
		if section.Len() > 0 {
			components.setMember(to, section)
		}
	}
	consumes, produces := root.Get("consumes").Texts(), root.Get("produces").Texts()
	// Convert paths first, because they refer to parameters that are converted below.
	for _, item := range root.Get("paths").Members() {
		c.item(item, consumes, produces)
	}
	move("parameters", "parameters", func(n *Node) *Node {
		if isBodyParameter(n) {
			return nil // operations get a copy
		}
		return c.parameter(n)
	})
	move("responses", "responses", func(n *Node) *Node { return c.response(n, produces) })
	move("definitions", "schemas", func(n *Node) *Node { return n })
	move("securityDefinitions", "securitySchemes", c.scheme)
	if c.valuesLeft < 0 {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "converting the document from Swagger 2.0 makes more than %d values", maxValues).
			WithHint("state consumes, produces and the parameters of paths only where they are needed")
	}
	c.rewrite(root, map[*Node]bool{})
	c.rewrite(components, map[*Node]bool{})
	root.setMember("openapi", c.text("3.0.3"))
	root.setMember("components", components)
	root.setMember("servers", c.servers())
	for _, name := range []string{"swagger", "definitions", "parameters", "responses", "securityDefinitions", "host", "basePath", "schemes", "consumes", "produces"} {
		root.dropMember(name)
	}
	return nil
}

type swaggerConverter struct {
	file *file
	root *Node
	// valuesLeft is the number of values that may still be made. Each operation gets the
	// parameters of its path, and each content all types, so that a short document could make
	// any number of values.
	valuesLeft int
}

// spend reports whether n more values may be made.
func (c *swaggerConverter) spend(n int) bool {
	if c.valuesLeft >= 0 {
		c.valuesLeft -= n
	}
	return c.valuesLeft >= 0
}

func (c *swaggerConverter) mapping() *Node {
	return &Node{kind: KindMap, file: c.file, members: map[string]*Node{}}
}

func (c *swaggerConverter) text(s string) *Node { return &Node{kind: KindText, file: c.file, text: s} }

func (c *swaggerConverter) list(items ...*Node) *Node {
	return &Node{kind: KindList, file: c.file, items: items}
}

func (c *swaggerConverter) singleMember(k string, v *Node) *Node {
	n := c.mapping()
	n.setMember(k, v)
	return n
}

func (n *Node) dropMember(name string) {
	delete(n.members, name)
	n.names = slices.DeleteFunc(n.names, func(one string) bool { return one == name })
}

func (c *swaggerConverter) servers() *Node {
	host, base := c.root.Get("host").Text(), c.root.Get("basePath").Text()
	if host == "" {
		base = cmp.Or(base, "/")
		return c.list(c.singleMember("url", c.text(base)))
	}
	scheme := "" // without schemes, that of the document's address
	switch schemes := c.root.Get("schemes").Texts(); {
	case slices.Contains(schemes, "https"):
		scheme = "https:"
	case len(schemes) > 0:
		scheme = schemes[0] + ":"
	}
	return c.list(c.singleMember("url", c.text(scheme+"//"+host+strings.TrimSuffix(base, "/"))))
}

// resolveLocal returns the node that a reference within the document names, or n itself.
func (c *swaggerConverter) resolveLocal(n *Node) *Node {
	path, ok := strings.CutPrefix(n.Get("$ref").Text(), "#/")
	if !ok || len(path) > maxPointer {
		return n
	}
	at := c.root
	for token := range strings.SplitSeq(path, "/") {
		at = at.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(token))
	}
	if at == nil {
		return n
	}
	return at
}

func isBodyParameter(n *Node) bool { in := n.Get("in").Text(); return in == "body" || in == "formData" }

func (c *swaggerConverter) item(item *Node, consumes, produces []string) {
	shared := item.Get("parameters").Items()
	item.dropMember("parameters")
	for _, method := range []string{"get", "head", "options", "post", "put", "patch", "delete"} {
		if o := item.Get(method); o.Kind() == KindMap {
			c.operation(o, shared, consumes, produces)
		}
	}
}

func (c *swaggerConverter) operation(o *Node, shared []*Node, consumes, produces []string) {
	if own := o.Get("consumes"); own != nil {
		consumes = own.Texts()
	}
	if own := o.Get("produces"); own != nil {
		produces = own.Texts()
	}
	own := o.Get("parameters").Items()
	if !c.spend(len(own) + len(shared)) {
		return
	}
	type name struct{ name, in string }
	nameOf := func(n *Node) name {
		full := c.resolveLocal(n)
		return name{full.Get("name").Text(), full.Get("in").Text()}
	}
	stated := map[name]bool{}
	for _, p := range own {
		stated[nameOf(p)] = true
	}
	for _, s := range shared { // parameters of the operation take precedence over those of the path
		if name := nameOf(s); !stated[name] {
			stated[name] = true
			own = append(own, s)
		}
	}
	var rest, form []*Node
	for _, p := range own {
		switch full := c.resolveLocal(p); full.Get("in").Text() {
		case "body":
			o.setMember("requestBody", c.body(full, consumes))
		case "formData":
			form = append(form, full)
		default:
			if p != full { // a reference, which rewrite changes
				rest = append(rest, p)
			} else {
				rest = append(rest, c.parameter(p))
			}
		}
	}
	if len(form) > 0 {
		o.setMember("requestBody", c.form(form, consumes))
	}
	o.setMember("parameters", c.list(rest...))
	responses := c.mapping()
	for status, r := range o.Get("responses").Members() {
		responses.setMember(status, c.response(r, produces))
	}
	o.setMember("responses", responses)
	o.dropMember("consumes")
	o.dropMember("produces")
	o.dropMember("schemes")
}

// schemaKeys are the members of a parameter that describe its value.
var schemaKeys = []string{
	"type", "format", "items", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
	"pattern", "maxItems", "minItems", "uniqueItems", "enum", "multipleOf", "x-nullable",
}

// splitSchema returns the members of a parameter that describe its value as a schema, and the
// other members.
func (c *swaggerConverter) splitSchema(n *Node) (rest, schema *Node) {
	rest, schema = c.mapping(), c.mapping()
	if !c.spend(n.Len()) {
		return rest, schema
	}
	for name, member := range n.Members() {
		if slices.Contains(schemaKeys, name) {
			schema.setMember(name, member)
		} else {
			rest.setMember(name, member)
		}
	}
	return rest, schema
}

func (c *swaggerConverter) parameter(n *Node) *Node {
	rest, schema := c.splitSchema(n)
	rest.setMember("schema", schema)
	format := rest.Get("collectionFormat").Text()
	rest.dropMember("collectionFormat")
	rest.dropMember("allowEmptyValue")
	if schema.Get("type").Text() != "array" || rest.Get("in").Text() != "query" {
		return rest
	}
	style, explode := c.listStyle(format)
	rest.setMember("style", style)
	rest.setMember("explode", explode)
	return rest
}

// listStyle returns the style and explode that correspond to a collectionFormat.
func (c *swaggerConverter) listStyle(format string) (style, explode *Node) {
	name := cmp.Or(map[string]string{"ssv": "spaceDelimited", "pipes": "pipeDelimited"}[format], "form")
	return c.text(name), &Node{kind: KindBool, file: c.file, text: strconv.FormatBool(format == "multi")}
}

func (c *swaggerConverter) body(n *Node, consumes []string) *Node {
	body := c.singleMember("content", c.content(n.Get("schema"), consumes, "application/json"))
	for _, name := range []string{"required", "description"} {
		if v := n.Get(name); v != nil {
			body.setMember(name, v)
		}
	}
	return body
}

func (c *swaggerConverter) form(fields []*Node, consumes []string) *Node {
	properties, encodings := c.mapping(), c.mapping()
	var required []*Node
	kind := "application/x-www-form-urlencoded"
	if slices.Contains(consumes, "multipart/form-data") && !slices.Contains(consumes, kind) {
		kind = "multipart/form-data"
	}
	for _, f := range fields {
		rest, schema := c.splitSchema(f)
		if text := rest.Get("description"); text != nil {
			schema.setMember("description", text)
		}
		if schema.Get("type").Text() == "file" {
			kind = "multipart/form-data"
		}
		if rest.Get("required").True() {
			required = append(required, rest.Get("name"))
		}
		name := rest.Get("name").Text()
		if schema.Get("type").Text() == "array" {
			encoding := c.mapping()
			style, explode := c.listStyle(rest.Get("collectionFormat").Text())
			encoding.setMember("style", style)
			encoding.setMember("explode", explode)
			encodings.setMember(name, encoding)
		}
		properties.setMember(name, schema)
	}
	schema := c.singleMember("type", c.text("object"))
	schema.setMember("properties", properties)
	if len(required) > 0 {
		schema.setMember("required", c.list(required...))
	}
	media := c.singleMember("schema", schema)
	if encodings.Len() > 0 {
		media.setMember("encoding", encodings)
	}
	body := c.singleMember("content", c.singleMember(kind, media))
	if len(required) > 0 {
		body.setMember("required", &Node{kind: KindBool, file: c.file, text: "true"})
	}
	return body
}

func (c *swaggerConverter) response(n *Node, produces []string) *Node {
	if n.Get("$ref") != nil {
		return n
	}
	out := c.mapping()
	if !c.spend(1 + n.Len()) {
		return out
	}
	for name, member := range n.Members() {
		switch name {
		case "schema":
			out.setMember("content", c.content(member, produces, "application/json"))
		case "headers", "examples":
		default:
			out.setMember(name, member)
		}
	}
	return out
}

func (c *swaggerConverter) content(schema *Node, types []string, otherwise string) *Node {
	if len(types) == 0 {
		types = []string{otherwise}
	}
	content := c.mapping()
	if !c.spend(len(types)) {
		return content
	}
	for _, kind := range types {
		if schema == nil {
			content.setMember(kind, c.mapping())
		} else {
			content.setMember(kind, c.singleMember("schema", schema))
		}
	}
	return content
}

func (c *swaggerConverter) scheme(n *Node) *Node {
	switch n.Get("type").Text() {
	case "basic":
		out := c.singleMember("type", c.text("http"))
		out.setMember("scheme", c.text("basic"))
		return out
	case "oauth2":
		flow := c.mapping()
		for _, name := range []string{"authorizationUrl", "tokenUrl", "scopes"} {
			if v := n.Get(name); v != nil {
				flow.setMember(name, v)
			}
		}
		names := map[string]string{"application": "clientCredentials", "accessCode": "authorizationCode"}
		name := n.Get("flow").Text()
		if names[name] != "" {
			name = names[name]
		}
		out := c.singleMember("type", c.text("oauth2"))
		out.setMember("flows", c.singleMember(name, flow))
		return out
	}
	return n
}

// componentPaths replaces the pointers to top-level sections of Swagger 2.0 by those of OpenAPI 3.
var componentPaths = strings.NewReplacer("#/definitions/", "#/components/schemas/", "#/parameters/", "#/components/parameters/", "#/responses/", "#/components/responses/")

// rewrite converts references and keywords of schemas below n, each node once.
func (c *swaggerConverter) rewrite(n *Node, seen map[*Node]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	if ref := n.Get("$ref"); ref.Kind() == KindText && strings.HasPrefix(ref.text, "#/") {
		ref.text = componentPaths.Replace(ref.text)
	}
	if n.Get("type").Text() == "file" {
		n.setMember("type", c.text("string"))
		n.setMember("format", c.text("binary"))
	}
	if n.Get("x-nullable").True() {
		n.setMember("nullable", n.Get("x-nullable"))
	}
	if d := n.Get("discriminator"); d.Kind() == KindText {
		n.setMember("discriminator", c.singleMember("propertyName", c.text(d.text)))
	}
	for _, member := range n.members {
		c.rewrite(member, seen)
	}
	for _, item := range n.items {
		c.rewrite(item, seen)
	}
}

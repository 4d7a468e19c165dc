package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// isSwagger reports whether a root document is Swagger 2.0.
func isSwagger(root *Node) bool { return root.Get("swagger").Text() == "2.0" }

// fromSwagger turns a root document from Swagger 2.0 into OpenAPI 3.0, in place. Other files
// that it refers to stay as they are, so they may hold schemas only.
func fromSwagger(root *Node) error {
	c := &converter{file: root.file, root: root, left: maxValues}
	components := c.mapping()
	move := func(from, to string, convert func(*Node) *Node) {
		section := c.mapping()
		for name, member := range root.Get(from).Members() {
			if converted := convert(member); converted != nil {
				section.set(name, converted)
			}
		}
		if section.Len() > 0 {
			components.set(to, section)
		}
	}
	consumes, produces := root.Get("consumes").Texts(), root.Get("produces").Texts()
	// Paths look parameters up, so they are converted first.
	for _, item := range root.Get("paths").Members() {
		c.item(item, consumes, produces)
	}
	move("parameters", "parameters", func(n *Node) *Node {
		if inBody(n) {
			return nil // copied to where it is used
		}
		return c.parameter(n)
	})
	move("responses", "responses", func(n *Node) *Node { return c.response(n, produces) })
	move("definitions", "schemas", func(n *Node) *Node { return n })
	move("securityDefinitions", "securitySchemes", c.scheme)
	if c.left < 0 {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "converting the document from Swagger 2.0 makes more than %d values", maxValues).
			WithHint("state consumes, produces and the parameters of paths only where they are needed")
	}
	c.rewrite(root, map[*Node]bool{})
	c.rewrite(components, map[*Node]bool{})
	root.set("openapi", c.text("3.0.3"))
	root.set("components", components)
	root.set("servers", c.servers())
	for _, name := range []string{"swagger", "definitions", "parameters", "responses", "securityDefinitions", "host", "basePath", "schemes", "consumes", "produces"} {
		root.drop(name)
	}
	return nil
}

type converter struct {
	file *file
	root *Node
	// left is how many values may still be made. Each operation gets the parameters of its
	// path, and each content all types, so that a short document can make any number.
	left int
}

// spend reports whether n more values may be made.
func (c *converter) spend(n int) bool {
	if c.left >= 0 {
		c.left -= n
	}
	return c.left >= 0
}

func (c *converter) mapping() *Node {
	return &Node{kind: KindMap, file: c.file, members: map[string]*Node{}}
}
func (c *converter) text(s string) *Node { return &Node{kind: KindText, file: c.file, text: s} }
func (c *converter) list(items ...*Node) *Node {
	return &Node{kind: KindList, file: c.file, items: items}
}
func (c *converter) one(k string, v *Node) *Node { n := c.mapping(); n.set(k, v); return n }

func (n *Node) drop(name string) {
	delete(n.members, name)
	n.names = slices.DeleteFunc(n.names, func(one string) bool { return one == name })
}

func (c *converter) servers() *Node {
	host, base := c.root.Get("host").Text(), c.root.Get("basePath").Text()
	if host == "" {
		base = cmp.Or(base, "/")
		return c.list(c.one("url", c.text(base)))
	}
	schemes := c.root.Get("schemes").Texts()
	scheme := "https"
	if len(schemes) > 0 && !slices.Contains(schemes, "https") {
		scheme = schemes[0]
	}
	return c.list(c.one("url", c.text(scheme+"://"+host+strings.TrimSuffix(base, "/"))))
}

// local returns the node that a reference within the document names, or n itself.
func (c *converter) local(n *Node) *Node {
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

func inBody(n *Node) bool { in := n.Get("in").Text(); return in == "body" || in == "formData" }

func (c *converter) item(item *Node, consumes, produces []string) {
	shared := item.Get("parameters").Items()
	item.drop("parameters")
	for _, method := range []string{"get", "head", "options", "post", "put", "patch", "delete"} {
		if o := item.Get(method); o.Kind() == KindMap {
			c.operation(o, shared, consumes, produces)
		}
	}
}

func (c *converter) operation(o *Node, shared []*Node, consumes, produces []string) {
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
		full := c.local(n)
		return name{full.Get("name").Text(), full.Get("in").Text()}
	}
	stated := map[name]bool{}
	for _, p := range own {
		stated[nameOf(p)] = true
	}
	for _, s := range shared { // those of the operation go before those of the path
		if name := nameOf(s); !stated[name] {
			stated[name] = true
			own = append(own, s)
		}
	}
	var rest, form []*Node
	for _, p := range own {
		switch full := c.local(p); full.Get("in").Text() {
		case "body":
			o.set("requestBody", c.body(full, consumes))
		case "formData":
			form = append(form, full)
		default:
			if p != full { // a reference, which is rewritten
				rest = append(rest, p)
			} else {
				rest = append(rest, c.parameter(p))
			}
		}
	}
	if len(form) > 0 {
		o.set("requestBody", c.form(form, consumes))
	}
	o.set("parameters", c.list(rest...))
	responses := c.mapping()
	for status, r := range o.Get("responses").Members() {
		responses.set(status, c.response(r, produces))
	}
	o.set("responses", responses)
	o.drop("consumes")
	o.drop("produces")
	o.drop("schemes")
}

// schemaKeys are the members of a parameter that describe its value.
var schemaKeys = []string{
	"type", "format", "items", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength",
	"pattern", "maxItems", "minItems", "uniqueItems", "enum", "multipleOf", "x-nullable",
}

// split moves the members that describe the value to a schema.
func (c *converter) split(n *Node) (rest, schema *Node) {
	rest, schema = c.mapping(), c.mapping()
	if !c.spend(n.Len()) {
		return rest, schema
	}
	for name, member := range n.Members() {
		if slices.Contains(schemaKeys, name) {
			schema.set(name, member)
		} else {
			rest.set(name, member)
		}
	}
	return rest, schema
}

func (c *converter) parameter(n *Node) *Node {
	rest, schema := c.split(n)
	rest.set("schema", schema)
	format := rest.Get("collectionFormat").Text()
	rest.drop("collectionFormat")
	rest.drop("allowEmptyValue")
	if schema.Get("type").Text() != "array" || rest.Get("in").Text() != "query" {
		return rest
	}
	style, explode := map[string]string{"ssv": "spaceDelimited", "pipes": "pipeDelimited"}[format], "false"
	style = cmp.Or(style, "form")
	if format == "multi" {
		explode = "true"
	}
	rest.set("style", c.text(style))
	rest.set("explode", &Node{kind: KindBool, file: c.file, text: explode})
	return rest
}

func (c *converter) body(n *Node, consumes []string) *Node {
	body := c.one("content", c.content(n.Get("schema"), consumes, "application/json"))
	for _, name := range []string{"required", "description"} {
		if v := n.Get(name); v != nil {
			body.set(name, v)
		}
	}
	return body
}

func (c *converter) form(fields []*Node, consumes []string) *Node {
	properties := c.mapping()
	var required []*Node
	kind := "application/x-www-form-urlencoded"
	if slices.Contains(consumes, "multipart/form-data") && !slices.Contains(consumes, kind) {
		kind = "multipart/form-data"
	}
	for _, f := range fields {
		rest, schema := c.split(f)
		if text := rest.Get("description"); text != nil {
			schema.set("description", text)
		}
		if schema.Get("type").Text() == "file" {
			kind = "multipart/form-data"
		}
		if rest.Get("required").True() {
			required = append(required, rest.Get("name"))
		}
		properties.set(rest.Get("name").Text(), schema)
	}
	schema := c.one("type", c.text("object"))
	schema.set("properties", properties)
	if len(required) > 0 {
		schema.set("required", c.list(required...))
	}
	body := c.one("content", c.one(kind, c.one("schema", schema)))
	if len(required) > 0 {
		body.set("required", &Node{kind: KindBool, file: c.file, text: "true"})
	}
	return body
}

func (c *converter) response(n *Node, produces []string) *Node {
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
			out.set("content", c.content(member, produces, "application/json"))
		case "headers", "examples":
		default:
			out.set(name, member)
		}
	}
	return out
}

func (c *converter) content(schema *Node, types []string, otherwise string) *Node {
	if len(types) == 0 {
		types = []string{otherwise}
	}
	content := c.mapping()
	if !c.spend(len(types)) {
		return content
	}
	for _, kind := range types {
		if schema == nil {
			content.set(kind, c.mapping())
		} else {
			content.set(kind, c.one("schema", schema))
		}
	}
	return content
}

func (c *converter) scheme(n *Node) *Node {
	switch n.Get("type").Text() {
	case "basic":
		out := c.one("type", c.text("http"))
		out.set("scheme", c.text("basic"))
		return out
	case "oauth2":
		flow := c.mapping()
		for _, name := range []string{"authorizationUrl", "tokenUrl", "scopes"} {
			if v := n.Get(name); v != nil {
				flow.set(name, v)
			}
		}
		names := map[string]string{"application": "clientCredentials", "accessCode": "authorizationCode"}
		name := n.Get("flow").Text()
		if names[name] != "" {
			name = names[name]
		}
		out := c.one("type", c.text("oauth2"))
		out.set("flows", c.one(name, flow))
		return out
	}
	return n
}

// places are where OpenAPI 3 keeps what Swagger 2.0 keeps at the top.
var places = strings.NewReplacer("#/definitions/", "#/components/schemas/", "#/parameters/", "#/components/parameters/", "#/responses/", "#/components/responses/")

// rewrite changes references and the words of schemas, each node once.
func (c *converter) rewrite(n *Node, seen map[*Node]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	if ref := n.Get("$ref"); ref.Kind() == KindText && strings.HasPrefix(ref.text, "#/") {
		ref.text = places.Replace(ref.text)
	}
	if n.Get("type").Text() == "file" {
		n.set("type", c.text("string"))
		n.set("format", c.text("binary"))
	}
	if n.Get("x-nullable").True() {
		n.set("nullable", n.Get("x-nullable"))
	}
	if d := n.Get("discriminator"); d.Kind() == KindText {
		n.set("discriminator", c.one("propertyName", c.text(d.text)))
	}
	for _, member := range n.members {
		c.rewrite(member, seen)
	}
	for _, item := range n.items {
		c.rewrite(item, seen)
	}
}

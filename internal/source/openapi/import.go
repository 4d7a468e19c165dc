package openapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
)

// Bounds of an import.
const (
	maxOperations = 5_000
	// maxSchemas limits the size of all schemas of an import, in bytes. Shared
	// definitions count once for each tool that needs them.
	maxSchemas = 128 << 20
)

// importer converts a document to operations.
type importer struct {
	config    *Config
	namespace string
	set       *Set
	// base is the URL of the document, or nil for a file.
	base *url.URL

	requests, responses *schemas
	schemes             map[string]scheme
	names               map[string]bool
	schemaBytes         int
}

// description is what importDocument reads from a document.
type description struct {
	title, text string
	operations  []*operation
	leftOut     []string // invalid operations, with the reasons
}

// servers returns the servers of all operations.
func (d *description) servers() []*url.URL {
	var servers []*url.URL
	for _, o := range d.operations {
		if !slices.ContainsFunc(servers, func(u *url.URL) bool { return u.Host == o.server.Host && u.Scheme == o.server.Scheme }) {
			servers = append(servers, o.server)
		}
	}
	return servers
}

// importDocument reads all selected operations. Its errors are of type
// *toolroom.Error.
func importDocument(ctx context.Context, namespace string, config *Config, set *Set, base *url.URL) (*description, error) {
	root := set.Root()
	if err := checkVersion(root); err != nil {
		return nil, err
	}
	i := &importer{
		config:    config,
		namespace: namespace,
		set:       set,
		base:      base,
		requests:  newSchemas(ctx, set, "readOnly"),
		responses: newSchemas(ctx, set, "writeOnly"),
		names:     map[string]bool{},
	}
	var err error
	if i.schemes, err = i.securitySchemes(); err != nil {
		return nil, err
	}
	found := &description{title: root.At("info", "title").Text(), text: root.At("info", "description").Text()}
	for path, item := range root.Get("paths").Members() {
		if strings.HasPrefix(path, "x-") {
			continue // an extension, not a path
		}
		if len(path) > maxPath || !strings.HasPrefix(path, "/") {
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the path %.60q%s does not begin with / or is longer than %d bytes", path, set.Position(item), maxPath).
				WithHint("correct the document")
		}
		if item, err = set.Resolve(item); err != nil {
			return nil, withOperation(path, err)
		}
		found.leftOut = append(found.leftOut, invalidOperations(path, item)...)
		for _, method := range methods {
			if item.Get(method).Kind() != KindMap {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			o, err := i.operation(strings.ToUpper(method), path, item, item.Get(method))
			if err != nil {
				return nil, withOperation(strings.ToUpper(method)+" "+path, err)
			}
			if o == nil {
				continue
			}
			if found.operations = append(found.operations, o); len(found.operations) > maxOperations {
				return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the document has more than %d operations", maxOperations).
					WithHint("select some with include, by operationId, \"GET /path*\" or tag:name")
			}
		}
	}
	return found, nil
}

// Limits for one operation: shared YAML nodes would multiply its size.
const (
	maxListed = 50
	maxText   = 8 << 10
	maxPath   = 2 << 10
)

func firstItems[T any](list []T) []T { return slices.Clip(list[:min(len(list), maxListed)]) }

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// methods are the methods of a path item (OpenAPI 3.1, 4.8.9), read-only ones first.
var methods = []string{"get", "head", "options", "post", "put", "patch", "delete", "trace"}

// pathFields are the fields of a path item that are not methods.
var pathFields = []string{"$ref", "summary", "description", "servers", "parameters"}

// invalidOperations names the fields of a path item that are no operations, though they look like
// some: a misspelled method, and a method without an operation. It names the path if the item has
// no fields.
func invalidOperations(path string, item *Node) []string {
	if item.Kind() != KindMap {
		return []string{fmt.Sprintf("%.200q: it has no operations", path)}
	}
	var out []string
	for name, field := range item.Members() {
		switch isMethod := slices.Contains(methods, name); {
		case isMethod && field.Kind() != KindMap:
			out = append(out, fmt.Sprintf("%.40q of %.200q: it has no operation", name, path))
		case isMethod, slices.Contains(pathFields, name), strings.HasPrefix(name, "x-"):
		default:
			out = append(out, fmt.Sprintf("%.40q of %.200q: it is not a method that OpenAPI 3.1 has", name, path))
		}
	}
	return out
}

func checkVersion(root *Node) error {
	version := root.Get("openapi").Text()
	if strings.HasPrefix(version, "3.0") || strings.HasPrefix(version, "3.1") {
		return nil
	}
	said := fmt.Sprintf("openapi: %.20q", version)
	if root.Has("swagger") {
		said = fmt.Sprintf("swagger: %.20q", root.Get("swagger").Text())
	} else if version == "" {
		said = "nothing of the kind"
	}
	return toolroom.Errorf(toolroom.CodeUnsupported, "the document must be OpenAPI 3.0, 3.1 or Swagger 2.0, and says %s", said).
		WithHint("convert it to OpenAPI 3, or describe the service as an http source")
}

// withOperation adds the place of an operation to the message of err.
func withOperation(place string, err error) error {
	var typed *toolroom.Error
	if !errors.As(err, &typed) {
		return err
	}
	e := *typed
	e.Message = fmt.Sprintf("%.200s: %s", place, e.Message)
	return &e
}

// operation reads one operation. It returns nil if it is not selected.
func (i *importer) operation(method, path string, item, n *Node) (*operation, error) {
	id := n.Get("operationId").Text()
	names := []string{method + " " + path}
	if id != "" {
		names = append(names, id)
	}
	tags := firstItems(n.Get("tags").Texts())
	for _, tag := range tags {
		names = append(names, "tag:"+tag)
	}
	if !i.config.selects(names) {
		return nil, nil
	}

	o := &operation{method: method, path: path}
	var err error
	// OpenAPI does not allow a query here, but documents have one.
	if before, after, ok := strings.Cut(path, "?"); ok {
		if o.query, err = url.ParseQuery(after); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the query of the path cannot be read: %w", err).WithHint("correct the document")
		}
		o.path = before
	}
	if o.server, err = i.server(n, item); err != nil {
		return nil, err
	}
	o.security = i.security(n)
	o.tool = toolroom.Tool{
		ID:          toolroom.ID{Namespace: i.namespace, Name: i.name(id, method, path)},
		Title:       clip(n.Get("summary").Text()),
		Description: clip(n.Get("description").Text()),
		Tags:        tags,
		Hints:       hints(method),
		Effects:     []toolroom.Effect{httpcall.Effect(method, o.server)},
		Source:      toolroom.SourceOpenAPI,
	}
	o.tool.Description = cmp.Or(o.tool.Description, o.tool.Title)
	o.tool.Description = cmp.Or(o.tool.Description, method+" "+path)
	if n.Get("deprecated").True() {
		o.tool.Tags = append(o.tool.Tags, "deprecated")
	}
	if err := i.input(o, item, n); err != nil {
		return nil, err
	}
	if err := i.output(o, n); err != nil {
		return nil, err
	}
	if o.keyed {
		o.tool.Guarantee = toolroom.GuaranteeKeyed
	}
	i.addNotes(o, n)
	if i.schemaBytes += len(o.tool.InputSchema) + len(o.tool.OutputSchema); i.schemaBytes > maxSchemas {
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the schemas of all operations are larger than %d bytes", maxSchemas).
			WithHint("select fewer operations with include")
	}
	return o, nil
}

// hints returns the hints that follow from the method by RFC 9110, 9.2.
func hints(method string) toolroom.Hints {
	yes := true
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return toolroom.Hints{ReadOnly: &yes}
	case http.MethodPut:
		return toolroom.Hints{Idempotent: &yes}
	case http.MethodDelete:
		return toolroom.Hints{Idempotent: &yes, Destructive: &yes}
	default:
		return toolroom.Hints{}
	}
}

// name returns a valid tool name made from the operationId, or from method and path.
// Two operations never share a name.
func (i *importer) name(id, method, path string) string {
	base := cleanName(id)
	if id == "" || base == "" {
		base = cleanName(strings.ToLower(method) + " " + strings.NewReplacer("{", "", "}", "").Replace(path))
	}
	name := base
	for count := 2; i.names[name]; count++ {
		suffix := fmt.Sprintf("_%d", count)
		name = base[:min(len(base), toolroom.MaxIDPart-len(suffix))] + suffix
	}
	i.names[name] = true
	return name
}

// cleanName keeps letters, digits and _ . - of s, and replaces each run of other
// characters by one _. If the name is too long, it ends in a hash of the whole.
func cleanName(s string) string {
	var out strings.Builder
	for word := range strings.FieldsFuncSeq(s, func(r rune) bool { return !isNameRune(r) }) {
		if out.Len() > 0 {
			out.WriteByte('_')
		}
		out.WriteString(word)
	}
	name := out.String()
	if len(name) > toolroom.MaxIDPart {
		hash := fnv.New32a()
		hash.Write([]byte(s))
		suffix := fmt.Sprintf("_%08x", hash.Sum32())
		name = name[:toolroom.MaxIDPart-len(suffix)] + suffix
	}
	return name
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r)
}

// server returns base_url, or the first server of the operation, its path or the
// document, with the default values of its variables.
func (i *importer) server(operation, item *Node) (*url.URL, error) {
	if i.config.BaseURL != "" {
		return parseServer(i.config.BaseURL)
	}
	address := "/"
	for _, n := range []*Node{operation, item, i.set.Root()} {
		if servers := n.Get("servers").Items(); len(servers) > 0 {
			address = servers[0].Get("url").Text()
			for name, variable := range servers[0].Get("variables").Members() {
				address = strings.ReplaceAll(address, "{"+name+"}", variable.Get("default").textOrNone()) // YAML reads a port as a number
			}
			break
		}
	}
	relative, err := url.Parse(address)
	switch {
	case err == nil && i.base != nil:
		address = i.base.ResolveReference(relative).String()
	case strings.HasPrefix(address, "//"): // a file has no address whose scheme it could share
		address = "https:" + address
	}
	server, err := parseServer(address)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the document does not name its server: %w", err).
			WithHint("set base_url of the source").
			WithCLIHint("say where it is: toolroom sources add --force %s --openapi %s --base-url http://HOST:PORT; or set openapi.base_url: toolroom sources edit %[1]s", i.namespace, i.config.Spec)
	}
	if i.leaksTo(server) {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported,
			"the document from %s://%s would send the configured credentials to %s://%s", i.base.Scheme, i.base.Host, server.Scheme, server.Host).
			WithHint("set base_url of the source to %s if that is right", server)
	}
	return server, nil
}

// leaksTo reports whether a fetched document names another host, or plain HTTP though it came
// over TLS, while credentials are configured. Its author, or whoever can listen to the network,
// could otherwise collect them.
func (i *importer) leaksTo(server *url.URL) bool {
	secrets := len(i.config.Auth) > 0 || len(i.config.Headers) > 0
	return secrets && i.base != nil && (i.base.Host != server.Host || i.base.Scheme == "https" && server.Scheme != "https")
}

// securitySchemes reads the schemes that requests can use.
func (i *importer) securitySchemes() (map[string]scheme, error) {
	schemes := map[string]scheme{}
	for name, n := range i.set.Root().At("components", "securitySchemes").Members() {
		n, err := i.set.Resolve(n)
		if err != nil {
			return nil, withOperation("security scheme "+name, err)
		}
		s := scheme{name: name, kind: bearer}
		switch n.Get("type").Text() {
		case "apiKey":
			s.kind, s.in, s.key = apiKey, n.Get("in").Text(), n.Get("name").Text()
			if !isHeaderName(s.key) && s.in != "query" {
				continue
			}
		case "http":
			switch strings.ToLower(n.Get("scheme").Text()) {
			case "basic":
				s.kind = basic
			case "bearer":
			default:
				continue
			}
		case "oauth2", "openIdConnect": // The token comes from the configuration.
		default:
			continue
		}
		schemes[name] = s
	}
	for name := range i.config.Auth {
		if _, known := schemes[name]; !known {
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "auth.%s: the document has no usable security scheme of that name", name).
				WithHint("the names are: %s", strings.Join(slices.Sorted(maps.Keys(schemes)), ", "))
		}
	}
	return schemes, nil
}

// security returns the alternatives of the operation, or of the document, whose
// schemes are all configured.
func (i *importer) security(n *Node) [][]scheme {
	requirements := n.Get("security")
	if requirements == nil {
		requirements = i.set.Root().Get("security")
	}
	var alternatives [][]scheme
	for _, requirement := range firstItems(requirements.Items()) {
		var needed []scheme
		for name := range requirement.Members() {
			if len(needed) == maxListed {
				break
			}
			// Keep a scheme that requests cannot use: the service may accept requests without
			// it, so it is an error only when the operation is called.
			s, known := i.schemes[name]
			if !known {
				s = scheme{name: name}
			}
			needed = append(needed, s)
		}
		slices.SortFunc(needed, func(a, b scheme) int { return strings.Compare(a.name, b.name) })
		alternatives = append(alternatives, needed)
	}
	return alternatives
}

package httpsource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/source/secretref"
)

// route is how the arguments of one tool become a request.
type route struct {
	method  string
	path    template
	query   []field
	headers []field
	body    Body
	content bodyNode
	// used are the arguments that a template takes; the rest goes into the body
	// or the query.
	used map[string]bool
}

type field struct {
	name  string
	value template
}

func (tool *Tool) method() string {
	if tool.Method == "" {
		return http.MethodPost
	}
	return strings.ToUpper(tool.Method)
}

// bodiless are the methods whose requests usually have no body.
var bodiless = []string{http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions}

func newRoute(tool *Tool) (*route, error) {
	r := &route{method: tool.method(), body: tool.Body, used: map[string]bool{}}
	switch {
	case r.body != "":
	case tool.BodyTemplate != nil:
		r.body = BodyTemplate
	case slices.Contains(bodiless, r.method):
		r.body = BodyNone
	default:
		r.body = BodyArgs
	}

	path := tool.Path
	if path == "" {
		path = "/" + tool.Name
	}
	var err error
	if r.path, err = parseTemplate(strings.TrimPrefix(path, "/")); err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if err := checkPath(r.path); err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if r.query, err = parseFields(tool.Query); err != nil {
		return nil, fmt.Errorf("query.%w", err)
	}
	if r.headers, err = parseFields(tool.Headers); err != nil {
		return nil, fmt.Errorf("headers.%w", err)
	}
	if r.content, err = parseBody(tool.BodyTemplate); err != nil {
		return nil, fmt.Errorf("body_template: %w", err)
	}
	for _, name := range r.arguments() {
		r.used[name] = true
	}
	return r, checkNames(tool, r.arguments())
}

// arguments lists what the templates take, those of the path first.
func (r *route) arguments() []string {
	names := r.path.arguments()
	for _, f := range slices.Concat(r.query, r.headers) {
		names = append(names, f.value.arguments()...)
	}
	return append(names, r.content.arguments()...)
}

// checkPath wants literals that need no escaping, so that what is escaped in a
// filled path is escaped by pathSegment.
func checkPath(path template) error {
	for _, p := range path {
		text, err := url.PathUnescape(p.literal)
		if err != nil || (&url.URL{Path: text, RawPath: p.literal}).EscapedPath() != p.literal {
			return fmt.Errorf("%q is not a path; escape special characters as %%20, and put a query into query", p.literal)
		}
	}
	return nil
}

// checkNames finds templates that name an argument which the schema rules out
// by listing others.
func checkNames(tool *Tool, names []string) error {
	properties, ok := tool.InputSchema["properties"].(map[string]any)
	if !ok {
		return nil
	}
	var errs []error
	for _, name := range names {
		if _, ok := properties[name]; !ok {
			known := strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
			errs = append(errs, fmt.Errorf("a template takes {%s}, which input_schema does not have among %s", name, known))
		}
	}
	return errors.Join(errs...)
}

func parseFields(values map[string]string) ([]field, error) {
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t, err := parseTemplate(values[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields = append(fields, field{name, t})
	}
	return fields, nil
}

// request puts the arguments in their places. The body is JSON.
func (r *route) request(ctx context.Context, base *url.URL, args arguments, secrets *secretref.Secrets) (*http.Request, error) {
	expand := func(literal string) (string, error) { return secrets.Expand(ctx, literal) }
	address, err := r.address(base, args, expand)
	if err != nil {
		return nil, err
	}
	body, err := r.payload(args, expand)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range r.headers {
		value, given, err := f.value.fill(args, expand, headerValue)
		if err != nil {
			return nil, err
		}
		if given {
			req.Header.Set(f.name, value)
		}
	}
	return req, nil
}

func (r *route) address(base *url.URL, args arguments, expand func(string) (string, error)) (*url.URL, error) {
	path, given, err := r.path.fill(args, asIs, pathSegment)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, r.missing(args)
	}
	if err := checkSegments(path); err != nil {
		return nil, err
	}
	address := *base
	address.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + path
	if address.Path, err = url.PathUnescape(address.RawPath); err != nil {
		return nil, fmt.Errorf("path of the tool: %w", err)
	}

	query := url.Values{}
	for _, f := range r.query {
		values, err := queryValues(f.value, args, expand)
		if err != nil {
			return nil, err
		}
		if values != nil {
			query[f.name] = values
		}
	}
	if r.body == BodyNone {
		for _, name := range args.without(r.used).names() {
			values, err := queryValues(template{{argument: name}}, args, expand)
			if err != nil {
				return nil, err
			}
			query[name] = append(query[name], values...)
		}
	}
	address.RawQuery = query.Encode()
	return &address, nil
}

func (r *route) missing(args arguments) error {
	for _, name := range r.path.arguments() {
		if _, given := args.get(name); !given {
			return badArgument(name, "it is part of the path and was not given").WithHint("give %s", name)
		}
	}
	return nil
}

func (r *route) payload(args arguments, expand func(string) (string, error)) ([]byte, error) {
	switch r.body {
	case BodyNone:
		return nil, nil
	case BodyTemplate:
		body, given, err := r.content.fill(args, expand)
		if err != nil || given {
			return body, err
		}
		return []byte("null"), nil
	default:
		body, err := json.Marshal(args.without(r.used))
		if err != nil {
			return nil, fmt.Errorf("encode the arguments: %w", err)
		}
		return body, nil
	}
}

// queryValues gives one value, or one for each element of a list.
func queryValues(t template, args arguments, expand func(string) (string, error)) ([]string, error) {
	if len(t) == 1 && t[0].argument != "" {
		raw, given := args.get(t[0].argument)
		if !given {
			return nil, nil
		}
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) == nil {
			return elementTexts(t[0].argument, elements)
		}
		if raw[0] == '{' {
			return []string{string(raw)}, nil
		}
	}
	text, given, err := t.fill(args, expand, asIs)
	if err != nil || !given {
		return nil, err
	}
	return []string{text}, nil
}

func elementTexts(name string, elements []json.RawMessage) ([]string, error) {
	texts := make([]string, len(elements))
	for i, element := range elements {
		text, ok := scalarText(element)
		if !ok {
			return nil, badArgument(name, "it is a list of lists or objects")
		}
		texts[i] = text
	}
	return texts, nil
}

// pathSegment escapes a value so that it stays one segment.
func pathSegment(value string) (string, error) {
	if value == "" {
		return "", errors.New("it is empty, and a part of a path cannot be")
	}
	return url.PathEscape(value), nil
}

// checkSegments refuses the names that lead to another path. They cannot be
// escaped: servers decode them before they resolve them.
func checkSegments(path string) error {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return badArgument("of the path", fmt.Sprintf("%q would lead to another path", segment))
		}
	}
	return nil
}

func headerValue(value string) (string, error) {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", fmt.Errorf("it holds the control character %q, which a header cannot", c)
		}
	}
	return value, nil
}

// checkHeader refuses what would change how the request is framed or routed.
func checkHeader(name, value string) error {
	if !isToken(name) {
		return errors.New("it is not a header name")
	}
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Te":
		return errors.New("this header belongs to the connection and cannot be set")
	}
	_, err := headerValue(value)
	return err
}

// isToken reports whether s is a token of RFC 9110, 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

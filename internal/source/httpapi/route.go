package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// route converts the arguments of one tool to a request.
type route struct {
	method  string
	path    template
	query   []field
	headers []field
	body    Body
	content bodyNode
	// used are the arguments in templates; the rest goes into the body or the query.
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

	path := cmp.Or(tool.Path, "/"+tool.Name)
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

// arguments returns the arguments in the templates, those of the path first.
func (r *route) arguments() []string {
	names := r.path.arguments()
	for _, f := range slices.Concat(r.query, r.headers) {
		names = append(names, f.value.arguments()...)
	}
	return append(names, r.content.arguments()...)
}

// checkPath requires literals that need no escaping, so that httpcall.PathSegment is the
// only source of escapes in a path.
func checkPath(path template) error {
	for _, p := range path {
		text, err := url.PathUnescape(p.literal)
		if err != nil || (&url.URL{Path: text, RawPath: p.literal}).EscapedPath() != p.literal {
			return fmt.Errorf("%q is not a path; escape special characters as %%20, and put a query into query", p.literal)
		}
	}
	return nil
}

// checkNames finds template arguments that the schema excludes because it lists
// others.
func checkNames(tool *Tool, names []string) error {
	properties, ok := tool.InputSchema["properties"].(map[string]any)
	if !ok {
		return nil
	}
	var errs []error
	for _, name := range names {
		if _, ok := properties[name]; !ok {
			known := strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
			errs = append(errs, fmt.Errorf("a template uses {%s}, which is not among the properties of input_schema: %s", name, known))
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

// request makes the request for the arguments. The body is JSON.
func (r *route) request(ctx context.Context, base *url.URL, args httpcall.Arguments, secrets *secretref.Secrets) (*http.Request, error) {
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
		value, given, err := f.value.fill(args, expand, httpcall.HeaderValue)
		if err != nil {
			return nil, err
		}
		if given {
			req.Header.Set(f.name, value)
		}
	}
	return req, nil
}

func (r *route) address(base *url.URL, args httpcall.Arguments, expand func(string) (string, error)) (*url.URL, error) {
	path, given, err := r.path.fill(args, unchanged, httpcall.PathSegment)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, r.checkMissing(args)
	}
	address, err := httpcall.Address(base, path)
	if err != nil {
		return nil, err
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
		for _, name := range slices.Sorted(maps.Keys(without(args, r.used))) {
			values, err := queryValues(template{{argument: name}}, args, expand)
			if err != nil {
				return nil, err
			}
			query[name] = append(query[name], values...)
		}
	}
	address.RawQuery = query.Encode()
	return address, nil
}

func (r *route) checkMissing(args httpcall.Arguments) error {
	for _, name := range r.path.arguments() {
		if _, given := args.Get(name); !given {
			return httpcall.BadArgument(name, "it is part of the path and is missing").WithHint("set %s", name)
		}
	}
	return nil
}

func (r *route) payload(args httpcall.Arguments, expand func(string) (string, error)) ([]byte, error) {
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
		body, err := json.Marshal(without(args, r.used))
		if err != nil {
			return nil, fmt.Errorf("encode the arguments: %w", err)
		}
		return body, nil
	}
}

// queryValues returns one value, or one for each element of a list.
func queryValues(t template, args httpcall.Arguments, expand func(string) (string, error)) ([]string, error) {
	if len(t) == 1 && t[0].argument != "" {
		raw, given := args.Get(t[0].argument)
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
	text, given, err := t.fill(args, expand, unchanged)
	if err != nil || !given {
		return nil, err
	}
	return []string{text}, nil
}

func elementTexts(name string, elements []json.RawMessage) ([]string, error) {
	texts := make([]string, len(elements))
	for i, element := range elements {
		text, ok := httpcall.ScalarText(element)
		if !ok {
			return nil, httpcall.BadArgument(name, "it is a list of lists or objects")
		}
		texts[i] = text
	}
	return texts, nil
}

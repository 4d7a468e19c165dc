// Package graphql implements a source for the queries and mutations of a GraphQL service. It
// reads the schema by introspection, and makes a tool of each field of the query and mutation
// types. Arguments go as variables, never into the text of a query.
package graphql

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/source"
)

// Config configures a source.
type Config struct {
	// URL is the endpoint. Headers go with each request; their values may refer to secrets.
	URL     string
	Headers map[string]string
	// Include and Exclude select fields by name, with *; "mutation" and "query" select all of
	// a kind. An empty Include selects all; Exclude wins.
	Include, Exclude []string
	// Depth is the depth of the default selection of fields; zero means 2.
	Depth       int
	Description string
	Timeout     time.Duration

	MaxResponse   int64
	RedirectHosts []string
}

// Options are the dependencies of a source.
type Options struct {
	Resolve secretref.Resolver
	// Egress guards the connections. URL is permitted in addition.
	Egress *egress.Guard
}

// Source is one service. It reads the schema when its tools are first needed, and again after
// a failure.
type Source struct {
	namespace           string
	config              Config
	url                 *url.URL
	resolve             secretref.Resolver
	client              *httpcall.Client
	introspectionClient *httpcall.Client // of the introspection, whose answer may be larger
	reading             chan struct{}
	reads               deadline.Calls

	mu         sync.Mutex
	tools      []toolroom.Tool
	operations map[toolroom.ID]*operation
	schema     *schema
	failure    error
}

// operation is a field of the query or mutation type.
type operation struct {
	field
	mutation bool
	// selectionArgument is the name of the argument for the selection; empty if the result has
	// no fields to select.
	selectionArgument string
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Describer = (*Source)(nil)
)

// New returns a source whose tools are in namespace. It opens no connection.
func New(namespace string, config Config, options Options) (*Source, error) {
	u, err := url.Parse(config.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	config.Depth = min(cmp.Or(config.Depth, defaultDepth), maxDepth)
	client := func(most int64) *httpcall.Client {
		return httpcall.NewClient(httpcall.Options{
			Timeout: config.Timeout, MaxResponse: most, RedirectHosts: config.RedirectHosts, Egress: options.Egress.WithOwn(u),
		})
	}
	return &Source{
		namespace: namespace, config: config, url: u, resolve: options.Resolve,
		client: client(config.MaxResponse), introspectionClient: client(max(config.MaxResponse, maxIntrospection)), reading: make(chan struct{}, 1),
	}, nil
}

// Tools lists the fields of the query and mutation types.
func (s *Source) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools), nil
}

// Describe returns the state of the source.
func (s *Source) Describe() source.Description {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := source.Description{Kind: toolroom.SourceGraphQL, Title: s.namespace, Text: s.config.Description, State: "idle"}
	switch {
	case s.schema != nil:
		d.State = "ready"
	case s.failure != nil:
		d.State, d.Reason = "broken", s.failure.Error()
	}
	return d
}

// Close ends the calls in flight.
func (s *Source) Close() error {
	s.reads.Close()
	_ = s.introspectionClient.Close() // neither returns an error
	return s.client.Close()
}

// load reads the schema, unless it has been read.
func (s *Source) load(ctx context.Context) error {
	ctx, done, err := s.reads.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return deadline.Cause(ctx)
	}
	s.mu.Lock()
	known := s.schema
	s.mu.Unlock()
	if known != nil {
		return nil
	}
	read, err := s.introspect(ctx)
	if err != nil && ctx.Err() != nil {
		return deadline.Cause(ctx)
	}
	var tools []toolroom.Tool
	var operations map[toolroom.ID]*operation
	if err == nil {
		tools, operations, err = s.makeTools(read)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure = err; err == nil {
		s.tools, s.operations, s.schema = tools, operations, read
	}
	return err
}

func (s *Source) introspect(ctx context.Context) (*schema, error) {
	a, reply, err := s.query(ctx, s.introspectionClient, introspection, nil)
	if err != nil {
		e := toolroom.AsError(err)
		failed := toolroom.Errorf(e.Code, "cannot read the schema: %w", err)
		failed.Retryable, failed.CLIHint = e.Retryable, e.CLIHint
		return nil, failed.WithHint("%s", cmp.Or(e.Hint, "check the url of the source, and that it serves GraphQL"))
	}
	if len(a.Errors) > 0 && reply != nil && (len(a.Data) == 0 || string(a.Data) == "null") {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the service refused the introspection: %s", a.errorText()).
			WithHint("it must permit introspection, perhaps to a login only: set headers")
	}
	return readSchema(a.Data)
}

// makeTools returns the tools of a schema.
func (s *Source) makeTools(read *schema) ([]toolroom.Tool, map[toolroom.ID]*operation, error) {
	operations := map[toolroom.ID]*operation{}
	var tools []toolroom.Tool
	for _, root := range []struct {
		kind, name string
		mutation   bool
	}{{"query", read.query, false}, {"mutation", read.mutation, true}} {
		t := read.types[root.name]
		if t == nil {
			continue
		}
		for _, f := range t.Fields {
			if !isName(f.Name) || !s.isSelected(root.kind, f.Name) {
				continue
			}
			if len(tools) == maxTools {
				return nil, nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the service has more than %d queries and mutations", maxTools).
					WithHint("choose some with include of the source")
			}
			id := toolroom.ID{Namespace: s.namespace, Name: f.Name}
			if operations[id] != nil {
				id.Name += ".mutation" // a query has the same name
			}
			o := &operation{field: f, mutation: root.mutation}
			tool, err := s.newTool(read, id, o)
			if err != nil {
				return nil, nil, err
			}
			operations[id] = o
			tools = append(tools, tool)
		}
	}
	return tools, operations, nil
}

func (s *Source) isSelected(kind, name string) bool {
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(glob string) bool {
			fits, _ := path.Match(glob, name) // the config has checked the globs
			return fits || glob == kind
		})
	}
	return (len(s.config.Include) == 0 || in(s.config.Include)) && !in(s.config.Exclude)
}

// Lengths of texts in bytes.
const (
	maxText      = 1000
	maxInputText = 300
	maxDefault   = 100
	maxShown     = 400 // of a default selection
)

func (s *Source) newTool(read *schema, id toolroom.ID, o *operation) (toolroom.Tool, error) {
	builder := &schemaBuilder{read, maxProperties, maxEnumText}
	object := builder.membersSchema(o.Args, 0)
	text := joinSentences(clip(o.Description, maxText), "Returns "+o.Type.String())
	if read.composite(o.Type) {
		properties, _ := object["properties"].(map[string]any)
		o.selectionArgument = "fields"
		for properties[o.selectionArgument] != nil {
			o.selectionArgument = "_" + o.selectionArgument
		}
		selection := read.defaultSelection(o.Type.inner().Name, s.config.Depth)
		properties[o.selectionArgument] = map[string]any{
			"type": "string", "description": "What to select of " + o.Type.inner().Name + ", as in GraphQL: id owner { login } issues(first: 5) { nodes { title } }. Default: " + clip(selection, maxShown),
		}
	}
	encoded, err := json.Marshal(object)
	if err != nil {
		return toolroom.Tool{}, err
	}
	yes, no := true, false
	tool := toolroom.Tool{
		ID: id, Description: text, InputSchema: encoded, Source: toolroom.SourceGraphQL, Timeout: s.config.Timeout,
		Hints: toolroom.Hints{ReadOnly: &yes, Destructive: &no, OpenWorld: &yes}, Guarantee: toolroom.GuaranteeSafe,
		Tags: []string{"graphql", "query"},
		// A query only reads although it is posted, so rules for GET apply to it.
		Effects: []toolroom.Effect{httpcall.Effect(http.MethodGet, s.url)},
	}
	if o.mutation {
		tool.Hints, tool.Guarantee, tool.Tags = toolroom.Hints{ReadOnly: &no, OpenWorld: &yes}, toolroom.GuaranteeNever, []string{"graphql", "mutation"}
		tool.Effects = []toolroom.Effect{httpcall.Effect(http.MethodPost, s.url)}
	}
	return tool, nil
}

// Call sends one query or mutation. Package httpcall describes its errors.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	unsent := &source.Output{Effects: toolroom.EffectsNone, Unsent: true}
	if err := s.load(ctx); err != nil {
		return unsent, err
	}
	s.mu.Lock()
	o, read := s.operations[req.Tool.Unversioned()], s.schema
	s.mu.Unlock()
	if o == nil {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "the service has no query or mutation %s", req.Tool)
	}
	text, variables, err := o.queryText(read, req.Arguments, s.config.Depth)
	if err != nil {
		return unsent, err
	}
	a, reply, err := s.query(ctx, s.client, text, variables)
	if err != nil {
		return &reply.Output, err
	}
	return a.output(o)
}

// queryText returns the text of a query or mutation, and its variables.
func (o *operation) queryText(read *schema, arguments json.RawMessage, depth int) (string, map[string]json.RawMessage, error) {
	args, err := httpcall.ParseArguments(arguments)
	if err != nil {
		return "", nil, err
	}
	variables := map[string]json.RawMessage{}
	var declared, passed []string
	for _, a := range o.Args {
		if value, ok := args[a.Name]; ok && isName(a.Name) {
			variables[a.Name] = value
			declared = append(declared, "$"+a.Name+": "+a.Type.String())
			passed = append(passed, a.Name+": $"+a.Name)
		}
	}
	var text strings.Builder
	text.WriteString("query")
	if o.mutation {
		text.Reset()
		text.WriteString("mutation")
	}
	if len(declared) > 0 {
		text.WriteString("(" + strings.Join(declared, ", ") + ")")
	}
	text.WriteString(" { " + o.Name)
	if len(passed) > 0 {
		text.WriteString("(" + strings.Join(passed, ", ") + ")")
	}
	if o.selectionArgument != "" {
		selected := ""
		if raw, ok := args.Get(o.selectionArgument); ok {
			if err := json.Unmarshal(raw, &selected); err != nil {
				return "", nil, httpcall.BadArgument(o.selectionArgument, "it is not text")
			}
		}
		if strings.TrimSpace(selected) == "" {
			selected = read.defaultSelection(o.Type.inner().Name, depth)
		} else if selected, err = read.parseSelection(o.Type.inner().Name, selected); err != nil {
			return "", nil, err
		}
		text.WriteString(" { " + selected + " }")
	}
	text.WriteString(" }")
	return text.String(), variables, nil
}

// response is the body of a response.
type response struct {
	Data   json.RawMessage
	Errors []responseError
}

type responseError struct {
	Message string
	// Path is a list of steps; some servers send one text.
	Path any
}

// place returns the path as one text, such as shop.items.0; empty if there is none.
func (e responseError) place() string {
	steps, ok := e.Path.([]any)
	if !ok && e.Path != nil {
		steps = []any{e.Path}
	}
	words := make([]string, len(steps))
	for i, step := range steps {
		words[i] = fmt.Sprint(step)
	}
	return strings.Join(words, ".")
}

// query sends a query. The reply is never nil if there is an error.
func (s *Source) query(ctx context.Context, client *httpcall.Client, query string, variables map[string]json.RawMessage) (response, *httpcall.Reply, error) {
	secrets := secretref.New(s.resolve)
	a, reply, err := s.send(ctx, client, query, variables, secrets)
	if httpcall.IsUnauthorized(err) && secrets.Renewed(ctx) {
		a, reply, err = s.send(ctx, client, query, variables, secretref.New(s.resolve))
		reply.Unsent = false // the first request was sent
	}
	return a, reply, err
}

func (s *Source) send(ctx context.Context, client *httpcall.Client, query string, variables map[string]json.RawMessage, secrets *secretref.Secrets) (response, *httpcall.Reply, error) {
	unsent := &httpcall.Reply{Output: source.Output{Effects: toolroom.EffectsNone, Unsent: true}}
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return response{}, unsent, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.URL, bytes.NewReader(body))
	if err != nil {
		return response{}, unsent, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/graphql-response+json, application/json;q=0.9")
	for name, value := range s.config.Headers {
		if value, err = secrets.Expand(ctx, value); err != nil {
			return response{}, unsent, err
		}
		request.Header.Set(name, value)
	}
	reply, err := client.Do(ctx, httpcall.Request{HTTP: request, Secrets: secrets, JSON: true})
	if err != nil {
		return response{}, reply, err
	}
	var a response
	if err := json.Unmarshal(reply.Value, &a); err != nil || len(a.Data) == 0 && len(a.Errors) == 0 {
		return a, reply, toolroom.Errorf(toolroom.CodeInvalidOutput, "%s did not answer as a GraphQL service: there is neither data nor errors", s.url.Host).
			WithHint("check the url of the source")
	}
	for i := range a.Errors {
		a.Errors[i].Message = secrets.Redact(a.Errors[i].Message)
	}
	return a, reply, nil
}

// maxShownErrors limits the errors of one response in a message.
const maxShownErrors = 5

// errorText returns the errors as one line for people.
func (a response) errorText() string {
	var all []string
	for _, p := range a.Errors[:min(len(a.Errors), maxShownErrors)] {
		text := clip(cmp.Or(p.Message, "an error without a message"), maxInputText)
		if at := p.place(); at != "" {
			text += " (at " + clip(at, maxDefault) + ")"
		}
		all = append(all, text)
	}
	if more := len(a.Errors) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// output returns the result of an operation. Errors without data are a failure of the tool;
// errors with data become a note in the content.
func (a response) output(o *operation) (*source.Output, error) {
	var data map[string]json.RawMessage
	_ = json.Unmarshal(a.Data, &data) // null has no members
	value, ok := data[o.Name]
	nothing := !ok || string(value) == "null"
	if nothing && len(a.Errors) > 0 {
		out := &source.Output{Failed: true, Effects: toolroom.EffectsNone, Content: []toolroom.Content{toolroom.TextContent(a.errorText())}}
		if o.mutation {
			out.Effects = toolroom.EffectsUnknown
		}
		return out, nil
	}
	if !ok {
		return &source.Output{Effects: toolroom.EffectsDone}, toolroom.Errorf(toolroom.CodeInvalidOutput, "the answer has no %s", o.Name)
	}
	out := &source.Output{Value: value}
	if len(a.Errors) > 0 {
		out.Content = []toolroom.Content{
			toolroom.TextContent(string(value)), toolroom.TextContent("The service answered in part only: " + a.errorText()),
		}
	}
	return out, nil
}

func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// joinSentences joins two texts, with a full stop between them.
func joinSentences(a, b string) string {
	switch {
	case a == "" || b == "":
		return a + b
	case strings.HasSuffix(a, "."):
		return a + " " + b
	default:
		return a + ". " + b
	}
}

// clip returns text as one line of at most n bytes.
func clip(text string, n int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

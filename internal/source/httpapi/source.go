package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/source"
)

// Options are the dependencies of a source.
type Options struct {
	// Resolve returns the secrets to which the configuration refers. If it is nil, calls
	// that need one fail.
	Resolve secretref.Resolver
	// Egress guards the connections. The service in the configuration is permitted in
	// addition.
	Egress *egress.Guard
	// Transport, if set, sends the requests in place of connections through Egress.
	Transport http.RoundTripper
}

// Source provides the tools of one HTTP service.
type Source struct {
	config  Config
	base    *url.URL
	tools   []toolroom.Tool
	routes  map[toolroom.ID]*endpoint
	resolve secretref.Resolver
	client  *httpcall.Client
}

// endpoint is a tool with its route. The route is nil in FormRun.
type endpoint struct {
	*Tool
	route *route
	keyed bool
	// mapping converts responses, or is nil.
	mapping *mapping
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Describer = (*Source)(nil)
)

// New returns a source whose tools are in namespace. It opens no connection. It returns
// the error of Config.Validate.
func New(namespace string, config Config, options Options) (*Source, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	base, err := url.Parse(config.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	s := &Source{
		config:  config,
		base:    base,
		routes:  make(map[toolroom.ID]*endpoint, len(config.Tools)),
		resolve: options.Resolve,
		client: httpcall.NewClient(httpcall.Options{
			Timeout:       config.Timeout,
			MaxResponse:   config.MaxResponse,
			RedirectHosts: config.RedirectHosts,
			Egress:        options.Egress.WithOwn(base),
			Transport:     options.Transport,
		}),
	}
	for i := range config.Tools {
		if err := s.add(namespace, &s.config.Tools[i]); err != nil {
			return nil, fmt.Errorf("tools[%d]: %w", i, err)
		}
	}
	return s, nil
}

func (s *Source) add(namespace string, tool *Tool) error {
	e := &endpoint{Tool: tool}
	if s.config.Form != FormRun {
		var err error
		if e.route, err = newRoute(tool); err != nil {
			return err
		}
	}
	if tool.Map != "" {
		var err error
		if e.mapping, err = tool.mapping(); err != nil {
			return err
		}
	}
	method := http.MethodPost
	if e.route != nil {
		method = e.route.method
	}
	described, err := e.describe(toolroom.ID{Namespace: namespace, Name: tool.Name})
	if err != nil {
		return err
	}
	described.Timeout = cmp.Or(described.Timeout, s.config.Timeout)
	described.Effects = []toolroom.Effect{httpcall.Effect(method, s.base)}
	e.keyed = described.RepeatGuarantee() == toolroom.GuaranteeKeyed
	s.tools = append(s.tools, described)
	s.routes[described.ID] = e
	return nil
}

func (e *endpoint) describe(id toolroom.ID) (toolroom.Tool, error) {
	input := e.InputSchema
	if input == nil && e.route != nil {
		input = e.route.schema()
	}
	inputSchema, err := schemaText(input)
	if err != nil {
		return toolroom.Tool{}, fmt.Errorf("input_schema: %w", err)
	}
	outputSchema, err := schemaText(e.OutputSchema)
	if err != nil {
		return toolroom.Tool{}, fmt.Errorf("output_schema: %w", err)
	}
	return toolroom.Tool{
		ID:           id,
		Title:        e.Title,
		Description:  e.Description,
		InputSchema:  inputSchema,
		OutputSchema: outputSchema,
		Hints:        e.hints(),
		Guarantee:    e.Guarantee,
		Tags:         e.Tags,
		Sensitive:    e.Sensitive,
		Timeout:      e.Timeout,
		Source:       toolroom.SourceHTTP,
	}, nil
}

// hints returns the hints of the configuration, with those of the method by RFC 9110,
// 9.2, as defaults.
func (e *endpoint) hints() toolroom.Hints {
	h := toolroom.Hints(e.Hints)
	if e.route == nil {
		return h
	}
	yes := true
	switch e.route.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		h.ReadOnly = cmp.Or(h.ReadOnly, &yes)
	case http.MethodPut:
		h.Idempotent = cmp.Or(h.Idempotent, &yes)
	case http.MethodDelete:
		h.Idempotent = cmp.Or(h.Idempotent, &yes)
		h.Destructive = cmp.Or(h.Destructive, &yes)
	}
	return h
}

// schema returns the input schema of a tool without one in the configuration. It accepts
// the arguments in the templates, and others, which are sent in the body or query.
func (r *route) schema() map[string]any {
	properties := map[string]any{}
	for name := range r.used {
		properties[name] = map[string]any{}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if required := r.path.arguments(); len(required) > 0 {
		slices.Sort(required)
		schema["required"] = slices.Compact(required)
	}
	return schema
}

func schemaText(schema map[string]any) (json.RawMessage, error) {
	if schema == nil {
		return nil, nil
	}
	return json.Marshal(schema)
}

// Tools lists the configured tools.
func (s *Source) Tools(context.Context) ([]toolroom.Tool, error) { return slices.Clone(s.tools), nil }

// Describe returns the description of the service in the configuration.
func (s *Source) Describe() source.Description {
	return source.Description{
		Kind:  toolroom.SourceHTTP,
		Title: s.config.Title,
		Text:  s.config.Description,
		State: "ready",
	}
}

// Close ends the calls in flight.
func (s *Source) Close() error { return s.client.Close() }

// Call sends one request. Package httpcall describes its errors.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	e, ok := s.routes[req.Tool.Unversioned()]
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "the source has no tool %s", req.Tool)
	}
	secrets := secretref.New(s.resolve)
	output, err := s.send(ctx, e, req, secrets)
	if httpcall.IsUnauthorized(err) && secrets.Renewed(ctx) {
		output, err = s.send(ctx, e, req, secretref.New(s.resolve))
		output.Unsent = false // the first request was sent
	}
	if err != nil {
		return output, err
	}
	if s.config.Form == FormRun {
		if err := unwrap(output); err != nil {
			return &source.Output{Effects: toolroom.EffectsDone}, err
		}
	}
	if e.Result != "" && !output.Failed {
		if output.Value, err = httpcall.Pick(output.Value, e.Result); err != nil {
			return &source.Output{Effects: toolroom.EffectsDone}, err
		}
	}
	if e.mapping != nil && !output.Failed {
		if err := e.mapping.apply(ctx, output, req.Arguments); err != nil {
			return &source.Output{Effects: toolroom.EffectsDone}, err
		}
	}
	return output, nil
}

func (s *Source) send(ctx context.Context, e *endpoint, req *source.Request, secrets *secretref.Secrets) (*source.Output, error) {
	request, err := s.request(ctx, e, req, secrets)
	if err != nil {
		return &source.Output{Effects: toolroom.EffectsNone, Unsent: true}, err
	}
	reply, err := s.client.Do(ctx, httpcall.Request{
		HTTP:    request,
		Secrets: secrets,
		Timeout: e.Timeout,
		JSON:    s.config.Form == FormRun || e.OutputSchema != nil || e.Result != "" || e.mapping != nil,
	})
	return &reply.Output, err
}

func (s *Source) request(ctx context.Context, e *endpoint, call *source.Request, secrets *secretref.Secrets) (*http.Request, error) {
	request, err := s.bareRequest(ctx, e, call, secrets)
	if err != nil {
		return nil, err
	}
	shared, err := s.headers(ctx, secrets)
	if err != nil {
		return nil, err
	}
	if e.keyed && call.IdempotencyKey != "" {
		shared.Set("Idempotency-Key", call.IdempotencyKey)
	}
	// The headers of the tool take precedence over those of the source.
	for name, values := range shared {
		if _, set := request.Header[name]; !set {
			request.Header[name] = values
		}
	}
	return request, nil
}

func (s *Source) headers(ctx context.Context, secrets *secretref.Secrets) (http.Header, error) {
	header := http.Header{"Accept": {"application/json, */*;q=0.5"}}
	for _, name := range slices.Sorted(maps.Keys(s.config.Headers)) {
		value, err := secrets.Expand(ctx, s.config.Headers[name])
		if err != nil {
			return nil, err
		}
		header.Set(name, value)
	}
	return header, nil
}

func (s *Source) bareRequest(ctx context.Context, e *endpoint, call *source.Request, secrets *secretref.Secrets) (*http.Request, error) {
	if s.config.Form == FormRun {
		return s.runRequest(ctx, e.Name, call.Arguments)
	}
	args, err := httpcall.ParseArguments(call.Arguments)
	if err != nil {
		return nil, err
	}
	return e.route.request(ctx, s.base, args, secrets)
}

func (s *Source) runRequest(ctx context.Context, tool string, input json.RawMessage) (*http.Request, error) {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	body, err := json.Marshal(struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}{tool, input})
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments are not JSON: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base.JoinPath("tools", "run").String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	return request, nil
}

// unwrap extracts the result from the response {"tool", "result", "success", "error"}.
func unwrap(output *source.Output) error {
	var answer struct {
		Result  json.RawMessage `json:"result"`
		Success *bool           `json:"success"`
		Error   json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(output.Value, &answer); err != nil || answer.Result == nil && answer.Success == nil {
		return toolroom.Errorf(toolroom.CodeInvalidOutput, `the response is not {"tool", "result", "success"}`).
			WithHint("set form: path if the service answers with the result itself")
	}
	output.Value = answer.Result
	output.Failed = answer.Success != nil && !*answer.Success
	if !output.Failed {
		return nil
	}
	reason := "the service reports failure and gives no reason"
	if why := answer.Error; len(why) > 0 && string(why) != "null" {
		if text, ok := httpcall.ScalarText(why); ok {
			reason = text
		} else {
			reason = string(why)
		}
	} else if len(answer.Result) > 0 && string(answer.Result) != "null" {
		reason, _ = httpcall.ScalarText(answer.Result)
	}
	if reason != "" {
		output.Content = []toolroom.Content{toolroom.TextContent(reason)}
	}
	return nil
}

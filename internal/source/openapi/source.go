package openapi

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/source"
)

// Source provides the operations of one document as tools. It reads the document when
// its tools are first needed, and again after a failure.
type Source struct {
	namespace string
	config    Config
	options   Options
	// reading lets one caller read the document while the others wait.
	reading chan struct{}
	reads   deadline.Calls

	mu         sync.Mutex
	client     *httpcall.Client
	document   *description
	operations map[toolroom.ID]*operation
	failure    error
}

var (
	_ source.Source    = (*Source)(nil)
	_ source.Describer = (*Source)(nil)
)

// New returns a source whose tools are in namespace. It does not read the document. It
// returns the error of Config.Validate.
func New(namespace string, config Config, options Options) (*Source, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Source{
		namespace: namespace,
		config:    config,
		options:   options,
		reading:   make(chan struct{}, 1),
	}
	var own []*url.URL
	for _, named := range []string{config.BaseURL, config.Spec} {
		if u, err := url.Parse(named); err == nil {
			own = append(own, u) // a file has no host
		}
	}
	s.client = s.newClient(own)
	return s, nil
}

// newClient returns a client that may reach the operator's own services in addition to
// those that the guard permits.
func (s *Source) newClient(own []*url.URL) *httpcall.Client {
	return httpcall.NewClient(httpcall.Options{
		Timeout:       s.config.Timeout,
		MaxResponse:   s.config.MaxResponse,
		RedirectHosts: s.config.RedirectHosts,
		Egress:        s.options.Egress.WithOwn(own...),
		Transport:     s.options.Transport,
	})
}

// Tools lists the operations of the document.
func (s *Source) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	found, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	tools := make([]toolroom.Tool, len(found.operations))
	for i, o := range found.operations {
		tools[i] = o.tool
	}
	return tools, nil
}

// Describe returns the document's description, once it has been read.
func (s *Source) Describe() source.Description {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := source.Description{Kind: toolroom.SourceOpenAPI, Text: s.config.Description, State: "idle"}
	switch {
	case s.document != nil:
		d.State, d.Title, d.LeftOut = "ready", s.document.title, s.document.leftOut
		if d.Text == "" {
			d.Text = clip(s.document.text)
		}
	case s.failure != nil:
		d.State, d.Reason = "broken", s.failure.Error()
	}
	return d
}

// Close ends the calls in flight.
func (s *Source) Close() error {
	s.reads.Close()
	return s.currentClient().Close()
}

func (s *Source) currentClient() *httpcall.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// load returns the document's operations and reads the document if necessary.
func (s *Source) load(ctx context.Context) (*description, error) {
	ctx, done, err := s.reads.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return nil, deadline.Cause(ctx)
	}
	s.mu.Lock()
	found := s.document
	s.mu.Unlock()
	if found != nil {
		return found, nil
	}

	found, err = s.read(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, deadline.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.document, s.failure = found, err
	if err != nil {
		return nil, err
	}
	if !s.config.isURL() {
		// A file belongs to the operator like the config that names it. The other
		// hosts in a fetched document are its author's choice.
		s.client = s.newClient(found.servers())
	}
	s.operations = make(map[toolroom.ID]*operation, len(found.operations))
	for _, o := range found.operations {
		if s.config.Timeout > 0 {
			o.tool.Timeout = s.config.Timeout
		}
		s.operations[o.tool.ID] = o
	}
	return found, nil
}

func (s *Source) read(ctx context.Context) (*description, error) {
	if s.config.isURL() {
		return s.readURL(ctx)
	}
	return s.readFolder(ctx)
}

// readFolder reads a file, and lets it refer to other files in its folder. os.Root
// refuses links that lead out of the folder.
func (s *Source) readFolder(ctx context.Context) (*description, error) {
	folder, err := os.OpenRoot(filepath.Dir(s.config.Spec))
	if err != nil {
		return nil, readError(s.config.Spec, err)
	}
	defer folder.Close()
	read := func(name string, most int64) ([]byte, error) {
		f, err := folder.Open(filepath.FromSlash(name))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, errors.Join(err, errors.New("it is not a regular file"))
		}
		return io.ReadAll(io.LimitReader(f, most+1))
	}
	name := filepath.Base(s.config.Spec)
	data, err := read(name, MaxDocument)
	if err != nil {
		return nil, readError(s.config.Spec, err)
	}
	if verify := s.options.Verify; verify != nil && len(data) <= MaxDocument {
		if err := verify(s.config.Spec, data); err != nil {
			return nil, err
		}
	}
	set, err := ParseSet(name, data, read)
	if err != nil {
		return nil, err
	}
	return importDocument(ctx, s.namespace, &s.config, set, nil)
}

func readError(spec string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return toolroom.Errorf(toolroom.CodeNotFound, "document %s not found: %w", spec, err).
			WithHint("correct spec of the source; a relative path is relative to the config file")
	}
	return toolroom.Errorf(toolroom.CodeUpstreamError, "the document %s cannot be read: %w", spec, err)
}

// readURL fetches a document, without the credentials of the service.
func (s *Source) readURL(ctx context.Context) (*description, error) {
	base, err := url.Parse(s.config.Spec)
	if err != nil {
		return nil, readError(s.config.Spec, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Spec, http.NoBody)
	if err != nil {
		return nil, readError(s.config.Spec, err)
	}
	request.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
	reply, err := s.currentClient().Do(ctx, httpcall.Request{HTTP: request, Raw: true})
	if err != nil {
		return nil, withOperation("the document", err)
	}
	set, err := ParseSet(base.Path, reply.Body, nil)
	if err != nil {
		return nil, err
	}
	return importDocument(ctx, s.namespace, &s.config, set, base)
}

// Call sends one request. Package httpcall describes its errors.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	if _, err := s.load(ctx); err != nil {
		return &source.Output{Effects: toolroom.EffectsNone, Unsent: true}, err
	}
	s.mu.Lock()
	o, ok := s.operations[req.Tool.Unversioned()]
	client := s.client
	s.mu.Unlock()
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "the document has no operation %s", req.Tool)
	}
	secrets := secretref.New(s.options.Resolve)
	reply, err := s.send(ctx, client, o, req, secrets)
	if httpcall.IsUnauthorized(err) && secrets.Renewed(ctx) {
		secrets = secretref.New(s.options.Resolve)
		reply, err = s.send(ctx, client, o, req, secrets)
		reply.Unsent = false // the first request was sent
	}
	if err != nil {
		return &reply.Output, s.explain(o, err)
	}
	if next := nextPage(reply.Header); next != "" {
		reply.Content = append(textOf(&reply.Output), toolroom.TextContent(secrets.Redact("There is a next page: "+next)))
	}
	return &reply.Output, nil
}

func (s *Source) send(ctx context.Context, client *httpcall.Client, o *operation, req *source.Request, secrets *secretref.Secrets) (*httpcall.Reply, error) {
	request, err := s.request(ctx, o, req, secrets)
	if err != nil {
		return &httpcall.Reply{Output: source.Output{Effects: toolroom.EffectsNone, Unsent: true}}, err
	}
	return client.Do(ctx, httpcall.Request{HTTP: request, Secrets: secrets, JSON: o.tool.OutputSchema != nil})
}

func (s *Source) request(ctx context.Context, o *operation, call *source.Request, secrets *secretref.Secrets) (*http.Request, error) {
	args, err := httpcall.ParseArguments(call.Arguments)
	if err != nil {
		return nil, err
	}
	request, query, err := o.request(ctx, args)
	if err != nil {
		return nil, err
	}
	if o.keyed && call.IdempotencyKey != "" {
		request.Header.Set("Idempotency-Key", call.IdempotencyKey)
	}
	return request, s.authenticate(ctx, o, request, query, secrets)
}

// explain adds the credentials that the document requires to a refusal.
func (s *Source) explain(o *operation, err error) error {
	var typed *toolroom.Error
	if !errors.As(err, &typed) || len(o.security) == 0 {
		return err
	}
	if status := typed.HTTPStatus; status != http.StatusUnauthorized && status != http.StatusForbidden {
		return err
	}
	if needed, ok := chooseSecurity(o.security, s.config.Auth); ok && len(needed) > 0 {
		return typed.WithHint("check the credentials in auth of the source: %s", strings.Join(schemeNames(needed), ", "))
	}
	return typed.WithHint(`set the credentials in auth of the source, for example auth: {%s: "secret://%s/key"}`,
		strings.Join(schemeNames(o.security[0]), ", "), s.namespace)
}

// textOf returns the content of output, or its value as text, so that text can be added
// to it.
func textOf(output *source.Output) []toolroom.Content {
	if len(output.Content) > 0 || len(output.Value) == 0 {
		return output.Content
	}
	return []toolroom.Content{toolroom.TextContent(string(output.Value))}
}

// nextPage returns the query of the Link header with rel="next" (RFC 8288).
func nextPage(header http.Header) string {
	for _, line := range header.Values("Link") {
		for {
			_, rest, found := strings.Cut(line, "<")
			if !found {
				break
			}
			target, rest, found := strings.Cut(rest, ">")
			if !found {
				break
			}
			var parameters string
			parameters, line = cutUnquoted(rest, ',')
			if address, err := url.Parse(target); err == nil && address.RawQuery != "" && isNext(parameters) {
				return address.RawQuery
			}
		}
	}
	return ""
}

func isNext(parameters string) bool {
	for parameters != "" {
		var p string
		p, parameters = cutUnquoted(parameters, ';')
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "rel") && slices.Contains(strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)), "next") {
			return true
		}
	}
	return false
}

// cutUnquoted slices text around the first separator that is not in a quoted string.
func cutUnquoted(text string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

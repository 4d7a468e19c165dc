package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// Resources lists all pages of the server's resources, on the operator's
// connection. The list is empty if the server offers none.
func (s *Source) Resources(ctx context.Context) ([]source.Resource, error) {
	items, err := s.listItems(ctx, "resources", "resources/list", "resources")
	return decodeDefinitions(s, items, func(r *source.Resource, raw json.RawMessage) string { r.Raw = raw; return r.URI }), err
}

// Templates lists all pages of the server's resource templates.
func (s *Source) Templates(ctx context.Context) ([]source.Template, error) {
	items, err := s.listItems(ctx, "resources", "resources/templates/list", "resourceTemplates")
	return decodeDefinitions(s, items, func(t *source.Template, raw json.RawMessage) string { t.Raw = raw; return t.URITemplate }), err
}

// Prompts lists all pages of the server's prompts.
func (s *Source) Prompts(ctx context.Context) ([]source.Prompt, error) {
	items, err := s.listItems(ctx, "prompts", "prompts/list", "prompts")
	return decodeDefinitions(s, items, func(p *source.Prompt, raw json.RawMessage) string { p.Raw = raw; return p.Name }), err
}

// ReadResource reads a resource on the caller's connection. The caller answers the
// server's questions in between.
func (s *Source) ReadResource(ctx context.Context, uri string, req *source.Request) (json.RawMessage, error) {
	return s.requestWithRetry(ctx, req, &serverRequest{method: "resources/read", name: uri, params: []mcp.Field{mcp.String("uri", uri)}})
}

// GetPrompt fills in a prompt on the caller's connection, like ReadResource.
func (s *Source) GetPrompt(ctx context.Context, name string, args map[string]string, req *source.Request) (json.RawMessage, error) {
	e := &serverRequest{method: "prompts/get", name: name, params: []mcp.Field{mcp.String("name", name)}}
	// If they are the arguments of a call, send them unchanged.
	sent, _ := mcp.ReadObject(req.Arguments)
	given := sent.Get("arguments")
	if given == nil && len(args) > 0 {
		var err error
		if given, err = jsonx.Marshal(args); err != nil {
			return nil, err
		}
	}
	if given != nil {
		e.params = append(e.params, mcp.Field{Name: "arguments", Value: given})
	}
	return s.requestWithRetry(ctx, req, e)
}

// Complete asks the server for completions, on the caller's connection. It returns none
// if the server does not support completion.
func (s *Source) Complete(ctx context.Context, c source.Completion) (source.Completions, error) {
	params, err := completionParams(c)
	if err != nil {
		return source.Completions{}, err
	}
	var answer struct {
		Completion source.Completions `json:"completion"`
	}
	err = s.linkOf(s.ownerOf(c.Identity)).withUpstream(ctx, "complete an argument", func(up *upstream) error {
		if _, offers := up.session.Server().Capabilities["completions"]; !offers {
			return nil
		}
		raw, err := up.call(ctx, &mcp.Request{Method: "completion/complete", Params: params, Meta: forwardedMeta(c.Meta)})
		if err != nil {
			return err
		}
		answer.Completion.Raw = raw
		return json.Unmarshal(raw, &answer)
	})
	return answer.Completion, err
}

func completionParams(c source.Completion) ([]mcp.Field, error) {
	if len(c.Params) > 0 {
		return rawCompletionParams(c)
	}
	ref := map[string]string{"type": "ref/prompt", "name": c.Prompt}
	if c.Prompt == "" {
		ref = map[string]string{"type": "ref/resource", "uri": c.Template}
	}
	parts := map[string]any{
		"ref":      ref,
		"argument": map[string]string{"name": c.Argument, "value": c.Value},
		"context":  map[string]any{"arguments": c.Known},
	}
	var fields []mcp.Field
	for _, name := range []string{"ref", "argument", "context"} {
		if name == "context" && len(c.Known) == 0 {
			continue
		}
		value, err := json.Marshal(parts[name])
		if err != nil {
			return nil, err
		}
		fields = append(fields, mcp.Field{Name: name, Value: value})
	}
	return fields, nil
}

// rawCompletionParams returns the parameters of a completion as its client wrote them,
// with the server's name for the prompt.
func rawCompletionParams(c source.Completion) ([]mcp.Field, error) {
	fields := fieldsWithout(c.Params, []string{"_meta"}, nil)
	for i, f := range fields {
		if f.Name != "ref" || c.Prompt == "" {
			continue
		}
		ref, err := mcp.ReadObject(f.Value)
		if err != nil {
			return nil, err
		}
		ref.Set("name", mcp.String("name", c.Prompt).Value)
		fields[i].Value = ref.JSON()
	}
	return fields, nil
}

// withUpstream is link.withUpstream on the operator's connection.
func (s *Source) withUpstream(ctx context.Context, what string, do func(*upstream) error) error {
	return s.mainLink().withUpstream(ctx, what, do)
}

// withUpstream calls do with the connection. If the server cannot have carried out its request,
// withUpstream calls do again, once, with a new connection. what describes the request in errors.
func (l *link) withUpstream(ctx context.Context, what string, do func(*upstream) error) error {
	for again := true; ; again = false {
		up, err := l.use(ctx)
		if err != nil {
			return err
		}
		err = do(up)
		if again && l.dropIfNotSent(up, err) {
			continue
		}
		if err != nil {
			return l.handleError(ctx, up, what, err)
		}
		return nil
	}
}

// listItems returns the raw members of a list, from all its pages. It returns none if
// the server lacks the capability.
func (s *Source) listItems(ctx context.Context, capability, method, key string) ([]json.RawMessage, error) {
	var items []json.RawMessage
	err := s.withUpstream(ctx, "answer "+method, func(up *upstream) (err error) {
		items = nil
		if _, offers := up.session.Server().Capabilities[capability]; !offers {
			return nil
		}
		items, err = s.readPages(ctx, up, method, key)
		// A server may have resources without supporting templates.
		if rpc := (*mcp.Error)(nil); errors.As(err, &rpc) && rpc.Code == mcp.CodeMethodNotFound {
			return nil
		}
		return err
	})
	return items, err
}

// readPages reads all pages of a list. The time is limited by StartTimeout, because commands that
// need the tools of all sources wait for it.
func (s *Source) readPages(ctx context.Context, up *upstream, method, key string) ([]json.RawMessage, error) {
	limited, cancel := context.WithTimeout(ctx, s.o.StartTimeout)
	defer cancel()
	items, err := up.readPages(limited, method, key)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil, &listTimeoutError{method: method, limit: s.o.StartTimeout}
	}
	return items, err
}

// listTimeoutError is the error of a server that did not send a whole list within start_timeout.
type listTimeoutError struct {
	method string
	limit  time.Duration
}

func (e *listTimeoutError) Error() string {
	return fmt.Sprintf("it did not answer %s within %s (start_timeout)", e.method, e.limit)
}

// readPages reads all pages of a list.
func (up *upstream) readPages(ctx context.Context, method, key string) ([]json.RawMessage, error) {
	var items []json.RawMessage
	cursor := ""
	for range maxPages {
		r := &mcp.Request{Method: method}
		if cursor != "" {
			r.Params = []mcp.Field{mcp.String("cursor", cursor)}
		}
		raw, err := up.call(ctx, r)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		var page []json.RawMessage
		var next string
		err = json.Unmarshal(raw, &members)
		if err == nil && len(members[key]) > 0 {
			err = json.Unmarshal(members[key], &page)
		}
		if err == nil && len(members["nextCursor"]) > 0 {
			err = json.Unmarshal(members["nextCursor"], &next)
		}
		if err != nil {
			return nil, fmt.Errorf("its answer to %s cannot be read: %w", method, err)
		}
		items = append(items, page...)
		if next == "" || next == cursor {
			return items, nil
		}
		cursor = next
	}
	return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the answer to %s has more than %d pages", method, maxPages)
}

// decodeDefinitions decodes the definitions in a list. It leaves out those that cannot be
// decoded or for which finish returns no key.
func decodeDefinitions[T any](s *Source, items []json.RawMessage, finish func(*T, json.RawMessage) (key string)) []T {
	all := make([]T, 0, len(items))
	for _, raw := range items {
		var one T
		if err := json.Unmarshal(raw, &one); err != nil || finish(&one, raw) == "" {
			s.o.Log.Warn("a definition of an MCP server was left out", "source", s.o.Namespace, "definition", fmt.Sprintf("%.200s", raw))
			continue
		}
		all = append(all, one)
	}
	return all
}

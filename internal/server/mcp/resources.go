package mcp

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/mcp"
)

// pageSize is the number of resources or prompts on one page of a list.
const pageSize = 1000

// readableBy returns a function that reports whether a caller may use a tool of the library,
// such as [catalog.ReadTool], on a provider. Policy decides as it does about calls.
func (s *Server) readableBy(who toolroom.Identity, tool string) func(provider string) bool {
	visible := s.visibleTo(who)
	return func(provider string) bool {
		e, err := s.o.Runner.Catalog.Resolve(catalog.ToolID(provider, tool).String(), nil)
		return err == nil && visible(e)
	}
}

func (s *Server) listResources(r *request) (*result, error) {
	cursor, err := cursorOf(r)
	if err != nil {
		return nil, err
	}
	s.o.Ready(r.ctx)
	kept, err := s.artifacts(r)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	items := []any{}
	for _, r := range s.o.Library.Resources(s.readableBy(r.who, catalog.ReadTool)) {
		items = append(items, definitionFor(r.Resource, r.Raw, "uri", r.Shown))
	}
	for _, r := range kept {
		items = append(items, r)
	}
	return paginatedResult("resources", items, cursor)
}

func (s *Server) listTemplates(r *request) (*result, error) {
	cursor, err := cursorOf(r)
	if err != nil {
		return nil, err
	}
	s.o.Ready(r.ctx)
	items := []any{}
	for _, t := range s.o.Library.Templates(s.readableBy(r.who, catalog.ReadTool)) {
		items = append(items, definitionFor(t.Template, t.Raw, "uriTemplate", t.URITemplate))
	}
	if s.o.Artifacts != nil {
		items = append(items, artifactTemplate)
	}
	return paginatedResult("resourceTemplates", items, cursor)
}

// definitionFor returns a definition for clients: as its source sent it, but with name, which
// is unique in the room, as the member key.
func definitionFor(definition any, raw json.RawMessage, key, name string) any {
	if len(raw) == 0 {
		data, err := json.Marshal(definition)
		if err != nil {
			return definition
		}
		raw = data
	}
	sent, err := readObject(raw)
	if err != nil {
		return definition
	}
	sent.set(key, name)
	return sent
}

// paginatedResult returns the result for the page of items at a cursor.
func paginatedResult(key string, items []any, cursor string) (*result, error) {
	page, next, err := paginate(items, cursor)
	if err != nil {
		return nil, err
	}
	return listResult(key, page, next)
}

func (s *Server) readResource(r *request) (*result, error) {
	if handle, ok := strings.CutPrefix(r.Name, artifactPrefix); ok {
		return s.readArtifact(taint.WithSession(r.ctx, r.session()), r, handle)
	}
	s.o.Ready(r.ctx)
	provider, own, ok := s.o.Library.FindResource(r.Name, s.readableBy(r.who, catalog.ReadTool))
	if !ok {
		return nil, resourceNotFound(r.ServerRequest, r.Name)
	}
	args, err := json.Marshal(map[string]string{"uri": own})
	if err != nil {
		return nil, err
	}
	return s.serveRounds(r, func(ctx context.Context, c client) (*result, error) {
		got := s.runWithApproval(ctx, c, s.libraryCall(r, catalog.ToolID(provider, catalog.ReadTool), args), nil)
		if toolroom.CodeOf(got.Err()) == toolroom.CodeNotFound {
			return nil, resourceNotFound(r.ServerRequest, r.Name)
		}
		out, err := libraryResult(got)
		if err == nil && r.Modern() {
			out.members.set("cacheScope", "private")
			out.members.set("ttlMs", 0)
		}
		return out, err
	})
}

// libraryCall returns the call that reads a resource or prompt. The result is not truncated,
// because the client decides whether a model reads it.
func (s *Server) libraryCall(r *request, id toolroom.ID, args json.RawMessage) toolroom.Call {
	return toolroom.Call{
		Tool: id.String(), Arguments: args, Identity: r.who, Surface: "mcp", Session: r.session(),
		Environment: s.environment(r.ctx), MaxOutput: -1, Meta: r.Meta, More: r.Other,
	}
}

// libraryResult returns the result of a libraryCall as the source sent it. A failure becomes a
// protocol error, because these methods have no other kind.
func libraryResult(r *toolroom.Result) (*result, error) {
	if r.Error != nil {
		return nil, rpcError(r.Error)
	}
	out, err := parseResult(r.Value)
	if err != nil {
		return nil, rpcError(toolroom.Errorf(toolroom.CodeInvalidOutput, "%s sent a result that is not a JSON object", r.Tool))
	}
	return out, nil
}

func resourceNotFound(r *mcp.ServerRequest, uri string) error {
	code := int64(mcp.CodeNoResource)
	if r.Modern() {
		code = mcp.CodeInvalidParams
	}
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		data = nil
	}
	return &mcp.Error{Code: code, Message: "there is no resource " + uri + " (resources/list has those that there are)", Data: data}
}

// artifactPrefix begins the URIs of stored results and artifacts, which are resources of their
// owner.
const artifactPrefix = "toolroom://artifacts/"

var artifactTemplate = map[string]any{
	"uriTemplate": artifactPrefix + "{handle}", "name": "artifacts", "title": "Results and artifacts",
	"description": "A file that a tool made, or a truncated result, by its handle (res_… or art_…).",
}

func (s *Server) artifacts(r *request) ([]map[string]any, error) {
	if s.o.Artifacts == nil {
		return nil, nil
	}
	kept, err := s.o.Artifacts.List(r.ctx, identity.Owner(r.who))
	if err != nil {
		return nil, err
	}
	items := make([]map[string]any, 0, len(kept))
	for _, a := range kept {
		item := map[string]any{"uri": artifactPrefix + url.PathEscape(a.Handle), "name": a.Handle, "size": a.Size}
		if a.Name != "" {
			item["title"] = a.Name
		}
		if a.MIMEType != "" {
			item["mimeType"] = a.MIMEType
		}
		items = append(items, item)
	}
	return items, nil
}

package mcpserver

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// listPage is how many resources or prompts are in one page of a list.
const listPage = 1000

// readers tells which providers a caller may read with a tool of the library:
// policy decides as it does about the call itself.
func (s *Server) readers(ctx context.Context, tool string) func(provider string) bool {
	visible := s.visible(s.o.Identity(ctx))
	return func(provider string) bool {
		e, err := s.o.Runner.Catalog.Resolve(library.ToolID(provider, tool).String(), nil)
		return err == nil && visible(e)
	}
}

func (s *Server) listResources(ctx context.Context, next mcp.MethodHandler, method string, req *mcp.ListResourcesRequest) (mcp.Result, error) {
	led, cursor := *req, ""
	if req.Params != nil {
		cursor, led.Params = req.Params.Cursor, &mcp.ListResourcesParams{Meta: req.Params.Meta}
	}
	s.o.Ready(ctx)
	kept, err := s.artifacts(ctx)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	items := []any{}
	for _, r := range s.o.Library.Resources(s.readers(ctx, library.ReadTool)) {
		items = append(items, shown(r.Resource, r.Raw, "uri", r.Shown))
	}
	for _, r := range kept {
		items = append(items, r)
	}
	result, err := next(ctx, method, &led)
	return listOf(req.Session, result, err, "resources", items, cursor)
}

func (s *Server) listTemplates(ctx context.Context, next mcp.MethodHandler, method string, req *mcp.ListResourceTemplatesRequest) (mcp.Result, error) {
	led, cursor := *req, ""
	if req.Params != nil {
		cursor, led.Params = req.Params.Cursor, &mcp.ListResourceTemplatesParams{Meta: req.Params.Meta}
	}
	s.o.Ready(ctx)
	items := []any{}
	for _, t := range s.o.Library.Templates(s.readers(ctx, library.ReadTool)) {
		items = append(items, shown(t.Template, t.Raw, "uriTemplate", t.URITemplate))
	}
	if s.o.Artifacts != nil {
		items = append(items, artifactTemplate)
	}
	result, err := next(ctx, method, &led)
	return listOf(req.Session, result, err, "resourceTemplates", items, cursor)
}

// shown is a definition as clients see it: what the source said, under the name
// that is good here.
func shown(definition any, raw json.RawMessage, key, name string) any {
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

// listOf puts a page of items in place of those of the SDK's own list, which
// brings the members that the era wants.
func listOf(session *mcp.ServerSession, result mcp.Result, err error, key string, items []any, cursor string) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	page, next, err := pageOf(items, cursor)
	if err != nil {
		return nil, err
	}
	return listing(session, result, key, page, next)
}

// listing is a list of the SDK's with our items in it.
func listing(session *mcp.ServerSession, result mcp.Result, key string, items any, next string) (mcp.Result, error) {
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	list, err := relayed(raw)
	if err != nil {
		return nil, err
	}
	list.members.set(key, items)
	list.members.drop("nextCursor")
	if next != "" {
		list.members.set("nextCursor", next)
	}
	return list.of(speaksVersion(session)), nil
}

func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (mcp.Result, error) {
	uri := req.Params.URI
	if handle, ok := strings.CutPrefix(uri, artifactPrefix); ok {
		ctx = taint.InSession(ctx, s.exchange(ctx, req.Session, req.ClientCapabilities(), nil).session)
		return s.readArtifact(ctx, req, handle)
	}
	s.o.Ready(ctx)
	provider, own, ok := s.o.Library.FindResource(uri, s.readers(ctx, library.ReadTool))
	if !ok {
		return nil, noResource(req.Session, uri)
	}
	sent, err := s.sent(req.Params.Meta, req.Params.InputResponses)
	if err != nil {
		return nil, err
	}
	ctx, leave := sent.within(ctx)
	defer leave()
	x := s.exchange(ctx, req.Session, req.ClientCapabilities(), req.Params.GetProgressToken())
	x.request = requestDigest("resources/read", uri, nil)
	x.state, x.answers = req.Params.RequestState, sent.answers
	args, err := json.Marshal(map[string]string{"uri": own})
	if err != nil {
		return nil, err
	}
	return s.converse(x, func(ctx context.Context, a asker, live func() *exchange) (mcp.Result, error) {
		result := s.perform(ctx, a, live, s.libraryCall(x, library.ToolID(provider, library.ReadTool), args, sent))
		if toolroom.CodeOf(result.Err()) == toolroom.CodeNotFound {
			return nil, noResource(req.Session, uri)
		}
		out, err := relay(result, x.version)
		if err == nil && x.modern() {
			out.members.set("cacheScope", "private")
			out.members.set("ttlMs", 0)
		}
		return out, err
	})
}

// libraryCall is the call that reads something of the library: whole, since no
// model reads it before the client has chosen to.
func (s *Server) libraryCall(x *exchange, id toolroom.ID, args json.RawMessage, sent parked) toolroom.Call {
	return toolroom.Call{
		Tool: id.String(), Arguments: args, Identity: x.who, Surface: "mcp", Session: x.session, MaxOutput: -1, Meta: sent.meta, More: sent.more,
	}
}

// relay is a result of the library as the source sent it. A failure is a
// protocol error: these methods know no other.
func relay(r *toolroom.Result, version string) (*wireResult, error) {
	if r.Error != nil {
		return nil, rpcError(r.Error)
	}
	out, err := relayed(r.Value)
	if err != nil {
		return nil, rpcError(toolroom.Errorf(toolroom.CodeInvalidOutput, "%s sent a result that is not a JSON object", r.Tool))
	}
	return out.of(version), nil
}

// codeNoResource is the error of older revisions; 2026-07-28 has invalid params.
const codeNoResource = -32002

func noResource(session *mcp.ServerSession, uri string) error {
	code := int64(codeNoResource)
	if speaksVersion(session) >= firstModern {
		code = jsonrpc.CodeInvalidParams
	}
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		data = nil
	}
	return &jsonrpc.Error{Code: code, Message: "there is no resource " + uri + " (resources/list has those that there are)", Data: data}
}

// watcher is the source that tells of changes of a resource, nil where it tells
// of none.
func (s *Server) watcher(ctx context.Context, session *mcp.ServerSession, uri string) (source.Watcher, string, error) {
	provider, own, ok := s.o.Library.FindResource(uri, s.readers(ctx, library.ReadTool))
	if !ok {
		return nil, "", noResource(session, uri)
	}
	src, _ := s.o.Library.Source(provider)
	watcher, _ := source.As[source.Watcher](src)
	return watcher, own, nil
}

// Results and artifacts are resources of their owner.
const artifactPrefix = "toolroom://artifacts/"

var artifactTemplate = map[string]any{
	"uriTemplate": artifactPrefix + "{handle}", "name": "artifacts", "title": "Results and artifacts",
	"description": "A file that a tool made, or a truncated result, by its handle (res_… or art_…).",
}

func (s *Server) artifacts(ctx context.Context) ([]map[string]any, error) {
	if s.o.Artifacts == nil {
		return nil, nil
	}
	kept, err := s.o.Artifacts.List(ctx, identity.Owner(s.o.Identity(ctx)))
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

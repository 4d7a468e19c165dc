package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/taint"
)

// metaTool is one of the server's own tools, with which clients find, describe and call the
// tools of the room without having all definitions in context.
type metaTool struct {
	definition *listedTool
	handle     func(*request) (*result, error)
}

// The names of the search tools, and of read_result, which every client needs to read the
// rest of a truncated result.
const (
	searchTools   = "search_tools"
	describeTools = "describe_tools"
	callTool      = "call_tool"
	readResult    = "read_result"
)

func (s *Server) metaTools() map[string]metaTool {
	yes, no := true, false
	reading := &toolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	tools := map[string]metaTool{}
	add := func(d *listedTool, handle func(*request) (*result, error)) {
		tools[d.Name] = metaTool{definition: d, handle: handle}
	}
	add(&listedTool{
		Name: searchTools, Title: "Search tools", Annotations: reading,
		Description: "Find tools by what you want to do. Returns the best matches with a ready call for each. Search before you conclude that something cannot be done.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{
			"query":{"type":"string","description":"the task in a few words; empty lists the first tools"},
			"limit":{"type":"integer","minimum":1,"maximum":100,"default":10},
			"namespace":{"type":"string","description":"search only the tools of this source"}},
			"required":["query"],"additionalProperties":false}`),
	}, s.searchTools)
	add(&listedTool{
		Name: describeTools, Title: "Describe tools", Annotations: reading,
		Description: "Show the arguments of tools with types and defaults; with detail full also notes, examples and the output schema.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{
			"tools":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":20,"description":"ids from search_tools"},
			"detail":{"type":"string","enum":["summary","schema","full"],"default":"schema"}},
			"required":["tools"],"additionalProperties":false}`),
	}, s.describeTools)
	add(&listedTool{
		Name: callTool, Title: "Call a tool", Annotations: &toolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
		Description: "Call a tool found by search_tools.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{
			"tool":{"type":"string","description":"id of the tool"},
			"arguments":{"type":"object","description":"arguments of the tool, as shown by describe_tools"}},
			"required":["tool"],"additionalProperties":false}`),
	}, s.callTool)
	add(&listedTool{
		Name: readResult, Title: "Read a long result", Annotations: reading,
		Description: "Read on in a result that was truncated, by its handle: a page from an offset, the lines that match a pattern, or the part that a JSON path selects. With the id of a run: the result of a suspended program or background call.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{
			"handle":{"type":"string","description":"res_… or art_…, or the id of a run"},
			"offset":{"type":"integer","minimum":0,"description":"offset of the first byte"},
			"limit":{"type":"integer","minimum":1,"description":"maximum number of bytes"},
			"grep":{"type":"string","description":"return only lines that match this regular expression (RE2)"},
			"context":{"type":"integer","minimum":0,"maximum":20,"description":"number of lines around each match"},
			"json_path":{"type":"string","description":"RFC 9535, for example $.items[0:5].name"}},
			"required":["handle"],"additionalProperties":false}`),
	}, s.readResult)
	tools[executeCode] = s.executeTool()
	return tools
}

func (s *Server) instructions() string {
	expose := s.expose.load()
	switch {
	case expose.Code:
		return fmt.Sprintf("Many tools are behind this server. Find them with %s, then do the work in one program with %s, which calls them as functions; read long results on with %s.",
			searchTools, executeCode, readResult)
	case expose.Large != nil || len(expose.Sets) > 0:
		return fmt.Sprintf("This server has the tools of many sources. If it lists %s, find the others with it, see how to call them with %s, call them with %s. A truncated result has a handle: read the rest with %s.",
			searchTools, describeTools, callTool, readResult)
	case !expose.Search:
		return "This server has the tools of many sources. A truncated result has a handle: read the rest with " + readResult + "."
	}
	return fmt.Sprintf("Many tools are behind this server. Find them with %s, see how to call them with %s, call them with %s; read long results on with %s.",
		searchTools, describeTools, callTool, readResult)
}

func (s *Server) searchTools(req *request) (*result, error) {
	var in struct {
		Query     string `json:"query"`
		Limit     int    `json:"limit"`
		Namespace string `json:"namespace"`
	}
	if err := s.decodeArguments(req, searchTools, &in); err != nil {
		return failedResult(req, err), nil
	}
	s.o.Ready(req.ctx)
	return structuredResult(req, s.o.Runner.Catalog.Search(in.Query, catalog.SearchOptions{
		Limit: in.Limit, Namespace: in.Namespace, Form: s.searchForm(req.who), View: s.modelView(req),
		Caller: &catalog.Caller{Identity: req.who, Session: req.session()},
	}))
}

func (s *Server) describeTools(req *request) (*result, error) {
	var in struct {
		Tools  []string       `json:"tools"`
		Detail toolroom.Level `json:"detail"`
	}
	if err := s.decodeArguments(req, describeTools, &in); err != nil {
		return failedResult(req, err), nil
	}
	s.o.Ready(req.ctx)
	out := struct {
		Tools    []*toolroom.Description `json:"tools"`
		NotFound []*toolroom.Error       `json:"not_found,omitempty"`
		// Shortened are the tools that are described at level summary for want of space.
		Shortened []string `json:"shortened,omitempty"`
		Note      string   `json:"note,omitempty"`
	}{Tools: []*toolroom.Description{}}
	left := maxDescriptions
	for _, spelling := range in.Tools {
		e, err := s.o.Runner.Find(req.ctx, &toolroom.Call{Tool: spelling, Identity: req.who, Environment: s.environment(req.ctx)})
		if err == nil && !s.allowed(req.who, e) {
			err = toolroom.Errorf(toolroom.CodeDenied, "you may not call %s", e.Tool.ID)
		}
		if err != nil {
			out.NotFound = append(out.NotFound, toolroom.AsError(err))
			continue
		}
		d, size, err := s.describe(req, e, in.Detail)
		if err == nil && size > left && len(in.Tools) > 1 {
			out.Shortened = append(out.Shortened, d.ID)
			d, size, err = s.describe(req, e, toolroom.LevelSummary)
			if err == nil && size > left {
				d = &toolroom.Description{ID: d.ID, Name: d.Name, Summary: d.Summary, Source: d.Source, Version: d.Version}
				size = 0
			}
		}
		if err != nil {
			return failedResult(req, err), nil
		}
		left -= size
		out.Tools = append(out.Tools, d)
	}
	if len(out.Shortened) > 0 {
		out.Note = fmt.Sprintf("the descriptions would have more than %d bytes; describe the shortened tools alone", maxDescriptions)
	}
	return structuredResult(req, out)
}

// maxDescriptions bounds the descriptions of several tools in one answer, in bytes.
const maxDescriptions = 256 << 10

// describe describes a tool, and returns the size of the description.
func (s *Server) describe(req *request, e *catalog.Entry, level toolroom.Level) (*toolroom.Description, int, error) {
	d, err := s.o.Runner.Catalog.Describe(req.ctx, e, level, s.searchForm(req.who))
	if err != nil {
		return nil, 0, err
	}
	encoded, err := jsonx.Marshal(d)
	return d, len(encoded), err
}

func (s *Server) callTool(req *request) (*result, error) {
	var in struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := s.decodeArguments(req, callTool, &in); err != nil {
		return failedResult(req, err), nil
	}
	return s.runTool(req, in.Tool, in.Arguments)
}

func (s *Server) readResult(req *request) (*result, error) {
	var in struct {
		Handle   string `json:"handle"`
		Offset   int64  `json:"offset"`
		Limit    int64  `json:"limit"`
		Grep     string `json:"grep"`
		Context  int    `json:"context"`
		JSONPath string `json:"json_path"`
	}
	if err := s.decodeArguments(req, readResult, &in); err != nil {
		return failedResult(req, err), nil
	}
	ctx := taint.WithSession(req.ctx, req.session())
	if run, err := s.findRun(ctx, in.Handle); err != nil {
		return failedResult(req, err), nil
	} else if run != nil {
		if in.Offset != 0 || in.Limit != 0 || in.Grep != "" || in.JSONPath != "" {
			return failedResult(req, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is a run, and its result cannot be read in parts", in.Handle).
				WithHint("pass the handle alone; truncated parts of the result have handles of their own")), nil
		}
		return s.runResult(ctx, req, run)
	}
	if s.o.Artifacts == nil {
		return failedResult(req, toolroom.Errorf(toolroom.CodeNotFound, "this server has no artifact store")), nil
	}
	page, err := s.o.Artifacts.Read(ctx, identity.Owner(req.who), in.Handle, artifact.ReadOptions{
		Offset: in.Offset, Limit: in.Limit, Grep: in.Grep, Context: in.Context, JSONPath: in.JSONPath,
	})
	if err != nil {
		return failedResult(req, err), nil
	}
	return structuredResult(req, page)
}

// decodeArguments decodes the arguments of one of the server's own tools into into. It
// returns an error if they do not match the tool's schema.
func (s *Server) decodeArguments(req *request, name string, into any) error {
	raw := req.Arguments
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	doc, err := jsonx.Decode(raw, jsonx.Limits{})
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid arguments of %s: %w", name, err)
	}
	compiled, err := s.schemas.Compile(s.meta[name].definition.InputSchema)
	if err != nil {
		return err
	}
	if err := compiled.Validate(doc); err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s do not fit: %w", name, err)
	}
	if err := jsonx.Unmarshal(raw, into, jsonx.Limits{Bytes: maxBody}); err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s do not fit: %w", name, err)
	}
	return nil
}

// failedResult returns the result of one of the server's own tools that failed with err.
func failedResult(req *request, err error) *result {
	out := &result{members: newObject(map[string]any{
		"isError": true, "content": []toolroom.Content{toolroom.TextContent(errorText(toolroom.AsError(err)))},
	})}
	return out.forVersion(req.Version)
}

// structuredResult returns the result of one of the server's own tools with the value v, as
// text and as structured content.
func structuredResult(req *request, v any) (*result, error) {
	value, err := jsonx.Marshal(v)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	out := &result{members: newObject(map[string]any{
		"content":           []toolroom.Content{toolroom.TextContent(strings.TrimSpace(string(value)))},
		"structuredContent": json.RawMessage(value),
	})}
	return out.forVersion(req.Version), nil
}

package mcp

import (
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// executeCode is the name of the tool that runs programs in code mode.
const executeCode = "execute_code"

func (s *Server) executeTool() metaTool {
	return metaTool{
		definition: &listedTool{
			Name: executeCode,
			Description: "Run a program in a sandbox; tools are its functions. JavaScript: await tools.NAMESPACE.NAME({arg: 1}); Python: tools.NAMESPACE.NAME(arg=1), or await it to run several with asyncio.gather. " +
				`Also call_tool("ns:name", {...}), search_tools("..."), describe_tool("ns:name"). ` +
				"Results are native values; a failed tool raises ToolError. The value is that of `return` or, in Python, the last expression. Filter, join and loop here; return only what you need.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{` +
				`"language":{"type":"string","enum":["javascript","typescript","python","shell"]},` +
				`"code":{"type":"string"},` +
				`"inputs":{"type":"object","description":"variables of the program"},` +
				`"session":{"type":"string","description":"keeps variables for the next run"},` +
				`"timeout_ms":{"type":"integer"}},` +
				`"required":["language","code"]}`),
		},
		handle: func(req *request) (*result, error) {
			return s.runTool(req, code.Tool, req.Arguments)
		},
	}
}

// briefDefinition returns d with no more than a model needs. In code mode the definitions
// of the four tools use at most 700 tokens, however many tools the room has.
func briefDefinition(d *listedTool) *listedTool {
	if short, ok := shortSchemas[d.Name]; ok {
		return &listedTool{Name: d.Name, Description: short.description, InputSchema: json.RawMessage(short.schema)}
	}
	return d
}

var shortSchemas = map[string]struct{ description, schema string }{
	searchTools: {
		"Find tools by what you want to do; each hit has a ready call. Search before you conclude that something cannot be done.",
		`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"},"namespace":{"type":"string"}},"required":["query"]}`,
	},
	describeTools: {
		"Show the arguments of tools by id.",
		`{"type":"object","properties":{"tools":{"type":"array","items":{"type":"string"}},"detail":{"type":"string","enum":["summary","schema","full"]}},"required":["tools"]}`,
	},
	readResult: {
		"Read on in a truncated result by its handle: from an offset, the lines that match grep, or a JSON path. With the id of a run as handle: its result.",
		`{"type":"object","properties":{"handle":{"type":"string"},"offset":{"type":"integer"},"limit":{"type":"integer"},"grep":{"type":"string"},"json_path":{"type":"string"}},"required":["handle"]}`,
	},
}

// setExecution adds the outcome of a program to the members of a result: as text for
// models, and as structured content.
func setExecution(members *object, r *toolroom.Result) error {
	content := []toolroom.Content{toolroom.TextContent(code.Format(r, readResult+" %s"))}
	for _, c := range r.Content {
		if c.Type != toolroom.ContentText {
			content = append(content, c)
		}
	}
	value := r.Value
	if r.Hidden != nil || len(value) == 0 {
		value = json.RawMessage("null")
	}
	structured, err := jsonx.Marshal(struct {
		Value     json.RawMessage `json:"value"`
		Execution any             `json:"execution"`
	}{value, r.Execution})
	if err != nil {
		return err
	}
	members.set("content", content)
	if r.Error != nil {
		return nil // callMeta includes the execution
	}
	members.set("structuredContent", json.RawMessage(structured))
	return nil
}

package toolflow

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Codes of JSON-RPC errors, as ToolFlow uses them.
const (
	codeParse   = -32700
	codeMethod  = -32601
	codeParams  = -32602
	codeTimeout = -32000
)

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// mcp answers a JSON-RPC request of MCP 2024-11-05, as the bridge sends it. Other clients use
// /mcp, which speaks all revisions.
func (s *server) mcp(r *http.Request, who toolroom.Identity) (int, any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, newHTTPError(http.StatusRequestEntityTooLarge, "the request body is too large")
	}
	var in struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err := jsonx.Unmarshal(body, &in, jsonx.Limits{}); err != nil {
		return http.StatusOK, map[string]any{"jsonrpc": "2.0", "error": rpcError{codeParse, "Parse error"}, "id": nil}, nil
	}
	answer := map[string]any{"jsonrpc": "2.0"}
	if len(in.ID) > 0 && string(in.ID) != "null" {
		answer["id"] = in.ID
	}
	var result any
	var failed *rpcError
	switch in.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": "2024-11-05", "capabilities": map[string]any{"tools": map[string]any{"listChanged": true}},
			"serverInfo": map[string]any{"name": "ToolFlow MCP Server", "version": "1.0.0"},
		}
	case "notifications/initialized":
		return http.StatusOK, map[string]any{}, nil
	case "ping":
		result = map[string]any{}
	case "tools/list":
		result, err = s.listTools(r, who)
	case "tools/call":
		result, failed = s.callTool(r, who, in.Params.Name, in.Params.Arguments)
	default:
		failed = &rpcError{codeMethod, "Method not found"}
	}
	if err != nil {
		return 0, nil, err
	}
	if failed != nil {
		answer["error"] = failed
	} else {
		answer["result"] = result
	}
	return http.StatusOK, answer, nil
}

// environment returns the environment of a request's calls: prod, unless it names another.
func (s *server) environment(r *http.Request) string {
	if s.Environment == nil {
		return ""
	}
	return s.Environment(r.Context())
}

// listTools lists the functions that the environment serves and the caller may call.
func (s *server) listTools(r *http.Request, who toolroom.Identity) (any, error) {
	all, err := s.allTools(r.Context())
	if err != nil {
		return nil, err
	}
	environment := s.environment(r)
	if environment == "" {
		environment = "prod"
	}
	tools := []any{}
	for _, t := range all {
		n := t.released[environment]
		if n == 0 {
			continue
		}
		// The catalog has what prod serves; a rule counts in every environment.
		found, _ := s.Runner.Catalog.Resolve(t.id, nil)
		entry, err := s.Runner.Releases.Snapshot().Serve(&toolroom.Call{Tool: t.id, Identity: who, Environment: environment}, found)
		if err != nil || entry == nil || !s.Runner.Allowed(who, entry) {
			continue
		}
		v, err := s.Releases.Store.Version(r.Context(), t.id, n)
		if err != nil {
			return nil, err
		}
		tools = append(tools, map[string]any{"name": shortID(t.id), "description": t.Description, "inputSchema": orObject(v.Spec.InputSchema)})
	}
	return map[string]any{"tools": tools}, nil
}

// callTool runs a call. A failed tool is a result with isError, what else fails an error.
func (s *server) callTool(r *http.Request, who toolroom.Identity, name string, arguments json.RawMessage) (any, *rpcError) {
	all, err := s.allTools(r.Context())
	if err != nil {
		return nil, &rpcError{codeTimeout, err.Error()}
	}
	known := slices.ContainsFunc(all, func(t toolState) bool { return t.id == fullID(name) })
	if known {
		name = fullID(name)
	}
	result := s.Runner.Run(r.Context(), toolroom.Call{
		Tool: name, Arguments: orObject(arguments), Identity: who, Environment: s.environment(r), Surface: surface, NoWait: true,
	})
	switch e := result.Error; {
	case e == nil:
	case e.Code == toolroom.CodeToolNotFound && !known, e.Code == toolroom.CodeInvalidID:
		return nil, &rpcError{codeMethod, "Tool not found"}
	case e.Code == toolroom.CodeToolNotFound:
		return nil, &rpcError{codeParams, "No active version"}
	case e.Code == toolroom.CodeTimeout:
		return nil, &rpcError{codeTimeout, "Task execution timed out"}
	}
	content := []any{}
	add := func(text string) { content = append(content, map[string]any{"type": "text", "text": text}) }
	if result.Error != nil {
		text := result.Error.Message
		if result.Error.Hint != "" {
			text += "\n" + result.Error.Hint
		}
		add(text)
	} else {
		add(valueText(result))
	}
	if logs := s.logs(r, result.Call); logs != "" {
		add("\n[Logs]:\n" + logs)
	}
	return map[string]any{"content": content, "isError": result.Error != nil}, nil
}

// valueText returns the value of a result as JSON text. Scalars and lists are kept.
func valueText(result *toolroom.Result) string {
	if len(result.Value) > 0 {
		return string(result.Value)
	}
	text, _ := json.Marshal(result.Text()) // a string can always be encoded
	return string(text)
}

func (s *server) logs(r *http.Request, call string) string {
	got, err := s.Receipts.Receipt(r.Context(), call)
	if err != nil {
		return ""
	}
	var lines []string
	for _, l := range got.Logs {
		lines = append(lines, strings.TrimRight(l.Message, "\n"))
	}
	return strings.Join(lines, "\n")
}

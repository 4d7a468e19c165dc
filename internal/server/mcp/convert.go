package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/mcp"
)

// convertResult converts the result of a call to MCP. The failure of a tool becomes a
// result with isError, which the model sees. A call that never reached a tool, or that an
// MCP server answered with a protocol error, becomes a protocol error. listed is the
// output schema that the client has received in a list; nil means none.
func convertResult(r *toolroom.Result, version string, listed *schema.Schema) (*result, error) {
	if r.Error != nil && isProtocolError(r.Error, version) {
		return nil, resultError(r)
	}
	out, whole := relayedResult(r, version)
	if !whole {
		var err error
		if out, err = ownResult(r, version); err != nil {
			return nil, rpcError(toolroom.AsError(err))
		}
	}
	err := out.conform(r, listed)
	if err == nil {
		out.callMeta, err = callMeta(r)
	}
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return out.forVersion(version), nil
}

// resultError returns the error of a failed result. If an MCP server sent the error, it is
// returned unchanged, even if the result has been stored since.
func resultError(r *toolroom.Result) error {
	var sent struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if r.Error.RPC != nil && json.Unmarshal(r.Raw, &sent) == nil && sent.Code != 0 {
		return &mcp.Error{Code: sent.Code, Message: sent.Message, Data: sent.Data, Sent: r.Raw}
	}
	return rpcError(r.Error)
}

func isProtocolError(e *toolroom.Error, version string) bool {
	if e.Missing != nil {
		return version >= firstModern // older revisions do not define this error
	}
	if e.Code == toolroom.CodeNotFound && e.Phase == toolroom.PhaseExecute && e.RPC == nil {
		return false // the tool itself did not find something, such as a file
	}
	return e.Code.Info().RPC != 0 || e.RPC != nil
}

// relayedResult returns the result that an MCP server sent, unchanged. It returns false if
// there is none or if it has been changed since, for example by truncation.
func relayedResult(r *toolroom.Result, version string) (*result, bool) {
	if len(r.Raw) == 0 || r.Execution != nil {
		return nil, false
	}
	out, err := parseResult(r.Raw)
	if err != nil || !out.members.has("content") {
		return nil, false
	}
	// A result that Toolroom rejected, for example because of the output schema, is not
	// passed on.
	if r.Error != nil && string(out.members.raw("isError")) != "true" {
		return nil, false
	}
	if version < firstModern && !isObject(out.members.raw("structuredContent")) {
		out.members.drop("structuredContent")
	}
	return out, true
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// ownResult makes an MCP result from the value and the content of r.
func ownResult(r *toolroom.Result, version string) (*result, error) {
	// Model APIs reject empty texts.
	content := slices.DeleteFunc(slices.Clone(r.Content), func(c toolroom.Content) bool {
		return c.Type == toolroom.ContentText && c.Text == ""
	})
	if len(content) == 0 && len(r.Value) > 0 {
		content = []toolroom.Content{toolroom.TextContent(cmp.Or(r.Text(), string(r.Value)))}
	}
	if r.Error != nil && (len(content) == 0 || r.Error.Code != toolroom.CodeExecutionFailed) {
		content = append([]toolroom.Content{toolroom.TextContent(errorText(r.Error))}, content...)
	}
	if len(content) == 0 {
		// Models take a result without content for a failure and repeat the call.
		content = []toolroom.Content{toolroom.TextContent("The call has succeeded and returned no content.")}
	}
	out := &result{members: newObject(map[string]any{"content": append([]toolroom.Content{}, content...)})}
	if r.Error != nil {
		out.members.set("isError", true)
	}
	// The content already has the text of a truncated value.
	if len(r.Value) > 0 && (isObject(r.Value) || r.Hidden == nil && version >= firstModern) {
		out.members.set("structuredContent", r.Value)
	}
	if r.Execution != nil {
		return out, setExecution(&out.members, r)
	}
	return out, nil
}

// metaResultKey is the member of _meta for what MCP has no field for; see [callMeta].
const metaResultKey = "toolroom/result"

// callMeta returns the JSON object that describes a call in the metadata of its result: id,
// status, effects, and what else the result has.
func callMeta(r *toolroom.Result) ([]byte, error) {
	text := make([]byte, 0, 96)
	text = append(text, '{')
	if len(r.Artifacts) > 0 {
		list, err := jsonx.Marshal(r.Artifacts)
		if err != nil {
			return nil, err
		}
		text = appendMember(text, "artifacts", list)
	}
	text = jsonx.AppendString(appendMember(text, "call", nil), r.Call)
	text = jsonx.AppendString(appendMember(text, "effects", nil), string(r.Effects))
	for _, part := range []struct {
		name  string
		there bool
		value any
	}{{"error", r.Error != nil, r.Error}, {"execution", r.Error != nil && r.Execution != nil, r.Execution}, {"hidden", r.Hidden != nil, r.Hidden}, {"warnings", r.Warnings != nil, r.Warnings}} {
		if !part.there {
			continue
		}
		value, err := jsonx.Marshal(part.value)
		if err != nil {
			return nil, err
		}
		text = appendMember(text, part.name, value)
	}
	text = jsonx.AppendString(appendMember(text, "status", nil), string(r.Status))
	return append(text, '}'), nil
}

func errorText(e *toolroom.Error) string {
	text := fmt.Sprintf("%s: %s", e.Code, e.Message)
	if e.Hint != "" {
		text += "\n" + e.Hint
	}
	return text
}

// chunkText returns a chunk as text for people: a JSON string without its quotes, the
// output that a program printed, or else the JSON.
func chunkText(chunk json.RawMessage) string {
	var printed struct{ Stream, Text string }
	if json.Unmarshal(chunk, &printed) == nil && printed.Stream != "" {
		return printed.Text
	}
	var text string
	if json.Unmarshal(chunk, &text) == nil {
		return text
	}
	return string(chunk)
}

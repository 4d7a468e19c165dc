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

// answer is a result as an MCP client reads it. A failed tool is a result with
// isError, which the model sees; what never reached a tool is a protocol error,
// and so is what a server of the protocol answered with one. told is the output
// schema that the client has, nil for none.
func answer(r *toolroom.Result, version string, told *schema.Schema) (*result, error) {
	if r.Error != nil && isProtocolError(r.Error, version) {
		return nil, sentError(r)
	}
	out, whole := relayedAnswer(r, version)
	if !whole {
		var err error
		if out, err = ownAnswer(r, version); err != nil {
			return nil, rpcError(toolroom.AsError(err))
		}
	}
	err := out.acceptable(r, told)
	if err == nil {
		out.note, err = note(r)
	}
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return out.of(version), nil
}

// sentError is the error of a result: as the server behind the tool sent it, also
// where the result has been stored meanwhile.
func sentError(r *toolroom.Result) error {
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
		return version >= firstModern // older clients know no such error
	}
	if e.Code == toolroom.CodeNotFound && e.Phase == toolroom.PhaseExecute && e.RPC == nil {
		return false // a tool did not find what it was asked for, such as a file
	}
	return e.Code.Info().RPC != 0 || e.RPC != nil
}

// relayedAnswer is the answer that an MCP server gave, as it came. It reports
// false where there is none, or where it did not stay whole on its way here.
func relayedAnswer(r *toolroom.Result, version string) (*result, bool) {
	if len(r.Raw) == 0 || r.Execution != nil {
		return nil, false
	}
	out, err := relayed(r.Raw)
	if err != nil || !out.members.has("content") {
		return nil, false
	}
	// An answer that was refused here, for example by the output schema, is
	// nobody's.
	if r.Error != nil && string(out.members.raw("isError")) != "true" {
		return nil, false
	}
	if version < firstModern && !isObject(out.members.raw("structuredContent")) {
		out.members.drop("structuredContent")
	}
	return out, true
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// ownAnswer is an answer made of the value and the content.
func ownAnswer(r *toolroom.Result, version string) (*result, error) {
	// The interfaces of models refuse an empty text.
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
		// Models take no text at all for a failure, and call again.
		content = []toolroom.Content{toolroom.TextContent("The call has succeeded and returned no content.")}
	}
	out := &result{members: members(map[string]any{"content": append([]toolroom.Content{}, content...)})}
	if r.Error != nil {
		out.members.set("isError", true)
	}
	// A value that was cut to a text is in the content already.
	if len(r.Value) > 0 && (isObject(r.Value) || r.Hidden == nil && version >= firstModern) {
		out.members.set("structuredContent", r.Value)
	}
	if r.Execution != nil {
		return out, executionMembers(&out.members, r)
	}
	return out, nil
}

// metaResult is where an answer carries what MCP has no field for.
const metaResult = "toolroom/result"

func note(r *toolroom.Result) ([]byte, error) {
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

// chunkText is a chunk for people: a text without its quotes, what a program
// printed, anything else as JSON.
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

package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// answer is a result as an MCP client reads it. A failed tool is a result with
// isError, which the model sees; what never reached a tool is a protocol error,
// and so is what a server of the protocol answered with one.
func answer(r *toolroom.Result, version string) (mcp.Result, error) {
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
	var err error
	if out.note, err = note(r); err != nil {
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
	if r.Error.Details[source.DetailRPCCode] != nil && json.Unmarshal(r.Raw, &sent) == nil && sent.Code != 0 {
		return &sentFailure{&jsonrpc.Error{Code: sent.Code, Message: sent.Message, Data: sent.Data}, r.Raw}
	}
	return rpcError(r.Error)
}

func isProtocolError(e *toolroom.Error, version string) bool {
	if e.Details[source.DetailCapabilities] != nil {
		return version >= firstModern // older clients know no such error
	}
	return e.Code.Info().RPC != 0 || e.Details[source.DetailRPCCode] != nil
}

// relayedAnswer is the answer that an MCP server gave, as it came. It reports
// false where there is none, or where it did not stay whole on its way here.
func relayedAnswer(r *toolroom.Result, version string) (*wireResult, bool) {
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
func ownAnswer(r *toolroom.Result, version string) (*wireResult, error) {
	content := r.Content
	if len(content) == 0 && len(r.Value) > 0 {
		content = []toolroom.Content{toolroom.TextContent(r.Text())}
	}
	if r.Error != nil && (len(content) == 0 || r.Error.Code != toolroom.CodeExecutionFailed) {
		content = append([]toolroom.Content{toolroom.TextContent(errorText(r.Error))}, content...)
	}
	out := &wireResult{members: members(map[string]any{"content": append([]toolroom.Content{}, content...)})}
	if r.Error != nil {
		out.members.set("isError", true)
	}
	if len(r.Value) > 0 && r.Hidden == nil && (version >= firstModern || isObject(r.Value)) {
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
	text = append(appendMember(text, "call", nil), appendText(nil, r.Call)...)
	text = append(appendMember(text, "effects", nil), appendText(nil, string(r.Effects))...)
	for _, part := range []struct {
		name  string
		there bool
		value any
	}{{"error", r.Error != nil, r.Error}, {"hidden", r.Hidden != nil, r.Hidden}} {
		if !part.there {
			continue
		}
		value, err := jsonx.Marshal(part.value)
		if err != nil {
			return nil, err
		}
		text = appendMember(text, part.name, value)
	}
	text = append(appendMember(text, "status", nil), appendText(nil, string(r.Status))...)
	return append(text, '}'), nil
}

func errorText(e *toolroom.Error) string {
	text := fmt.Sprintf("%s: %s", e.Code, e.Message)
	if e.Hint != "" {
		text += "\n" + e.Hint
	}
	return text
}

// withNotifications sends what happens in a call to the client: progress where
// it gave a token, log lines where it asked for them. Between two rounds there is
// nobody to tell.
func (s *Server) withNotifications(ctx context.Context, live func() *exchange) context.Context {
	// Progress must grow with each notification; what a tool prints makes it grow
	// so little that its own figures, which follow, are still the larger ones.
	const step = 1.0 / 1024
	steps := 0.0
	progress := func(done, total float64, message string, raw json.RawMessage) {
		x := live()
		if x == nil || x.progress == nil {
			return
		}
		if v, ok := x.speak(); ok {
			if raw != nil {
				raw = withMember(raw, "progressToken", x.progress)
			}
			_ = v.session.NotifyProgress(withVerbatim(v.ctx, raw), &mcp.ProgressNotificationParams{
				ProgressToken: x.progress, Progress: done, Total: total, Message: message,
			})
		}
	}
	return run.WithSink(ctx, func(e toolroom.Event) {
		// A client that went away does not stop the tool here; its context does.
		switch e.Kind {
		case toolroom.EventProgress:
			done := e.Progress.Done
			if e.Progress.Raw == nil && steps > 0 {
				done = max(done, steps+step)
			}
			steps = max(steps, done)
			progress(done, e.Progress.Total, e.Progress.Message, e.Progress.Raw)
		case toolroom.EventChunk:
			steps += step
			progress(steps, 0, chunkText(e.Chunk), nil)
		case toolroom.EventApproval:
			steps += step
			progress(steps, 0, fmt.Sprintf("approval %s is %s: %s", e.Approval.ID, e.Approval.State, e.Approval.Reason), nil)
		case toolroom.EventNotice:
			if x := live(); x != nil {
				if v, ok := x.speak(); ok {
					_ = s.notify(v.ctx, v.session, *e.Notice)
				}
			}
		case toolroom.EventLog:
			x := live()
			if x == nil || !x.logs {
				return
			}
			if v, ok := x.speak(); ok {
				//lint:ignore SA1019 clients from before 2026-07-28 know no other way
				_ = v.session.Log(withVerbatim(v.ctx, e.Log.Raw), logLine(&e))
			}
		}
	})
}

// chunkText is a chunk for people: a text without its quotes, what a program
// printed, anything else as JSON.
func chunkText(chunk json.RawMessage) string {
	var printed struct{ Stream, Text string }
	if json.Unmarshal(chunk, &printed) == nil && printed.Stream != "" {
		return printed.Text
	}
	return string(bytes.Trim(chunk, `"`))
}

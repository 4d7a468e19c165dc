package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// definition is a tool as clients see it. What an MCP server said of its tool
// is passed on; the name is the one that every model API accepts.
func definition(e *catalog.Entry, name, version string) *mcp.Tool {
	t := &mcp.Tool{}
	if len(e.Tool.Raw) == 0 || json.Unmarshal(e.Tool.Raw, t) != nil {
		t = &mcp.Tool{
			Title:       e.Tool.Title,
			Description: e.Tool.Description,
			Annotations: annotations(e.Tool.Hints),
		}
	}
	t.Name = name
	t.InputSchema = e.Tool.InputSchema
	if len(e.Tool.InputSchema) == 0 {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	t.OutputSchema = nil
	// Before 2026-07-28 structured content is always an object.
	if len(e.Tool.OutputSchema) > 0 && (version >= firstModern || describesObject(e.Tool.OutputSchema)) {
		t.OutputSchema = e.Tool.OutputSchema
	}
	return t
}

func annotations(h toolroom.Hints) *mcp.ToolAnnotations {
	if h == (toolroom.Hints{}) {
		return nil
	}
	return &mcp.ToolAnnotations{
		ReadOnlyHint:    h.IsReadOnly(),
		DestructiveHint: h.Destructive,
		IdempotentHint:  h.IsIdempotent(),
		OpenWorldHint:   h.OpenWorld,
	}
}

func describesObject(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// answer is a result as an MCP client reads it. A failed tool is a result with
// isError, which the model sees; what never reached a tool is a protocol error.
func answer(r *toolroom.Result, version string) (mcp.Result, error) {
	if r.Error != nil && (r.Error.Code.Info().RPC != 0 || version >= firstModern && r.Error.Details[source.DetailCapabilities] != nil) {
		return nil, rpcError(r.Error)
	}
	content := r.Content
	if len(content) == 0 && len(r.Value) > 0 {
		content = []toolroom.Content{toolroom.TextContent(r.Text())}
	}
	if r.Error != nil && (len(content) == 0 || r.Error.Code != toolroom.CodeExecutionFailed) {
		content = append([]toolroom.Content{toolroom.TextContent(errorText(r.Error))}, content...)
	}
	out := &wireResult{members: map[string]any{"content": append([]toolroom.Content{}, content...)}}
	out.Meta = mcp.Meta{metaResult: note(r)}
	if r.Error != nil {
		out.members["isError"] = true
	}
	if len(r.Value) > 0 && r.Hidden == nil && (version >= firstModern || r.Value[0] == '{') {
		out.members["structuredContent"] = r.Value
	}
	if r.Execution != nil {
		if err := executionMembers(out.members, r); err != nil {
			return nil, rpcError(toolroom.AsError(err))
		}
	}
	return out.of(version), nil
}

// metaResult is where an answer carries what MCP has no field for.
const metaResult = "toolroom/result"

func note(r *toolroom.Result) map[string]any {
	n := map[string]any{"call": r.Call, "status": r.Status, "effects": r.Effects}
	if r.Hidden != nil {
		n["hidden"] = r.Hidden
	}
	if len(r.Artifacts) > 0 {
		n["artifacts"] = r.Artifacts
	}
	if r.Error != nil {
		n["error"] = r.Error
	}
	return n
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
func withNotifications(ctx context.Context, live func() *exchange) context.Context {
	steps := 0.0
	progress := func(done, total float64, message string) {
		x := live()
		if x == nil || x.progress == nil {
			return
		}
		_ = x.session.NotifyProgress(x.ctx, &mcp.ProgressNotificationParams{
			ProgressToken: x.progress, Progress: done, Total: total, Message: message,
		})
	}
	return run.WithSink(ctx, func(e toolroom.Event) {
		// A client that went away does not stop the tool here; its context does.
		switch e.Kind {
		case toolroom.EventProgress:
			steps = max(steps, e.Progress.Done)
			progress(e.Progress.Done, e.Progress.Total, e.Progress.Message)
		case toolroom.EventChunk:
			steps++ // progress must grow with each notification
			progress(steps, 0, chunkText(e.Chunk))
		case toolroom.EventApproval:
			steps++
			progress(steps, 0, fmt.Sprintf("approval %s is %s: %s", e.Approval.ID, e.Approval.State, e.Approval.Reason))
		case toolroom.EventLog:
			if x := live(); x != nil {
				//lint:ignore SA1019 clients from before 2026-07-28 know no other way
				_ = x.session.Log(x.ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(e.Log.Level), Logger: e.Tool, Data: e.Log.Message})
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

package mcpserver

//lint:file-ignore SA1019 clients from before 2026-07-28 know no other way

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// logLine is a line of a tool's log. Of one that a server behind the tool wrote,
// which goes out unchanged, only the level counts here.
func logLine(e *toolroom.Event) *mcp.LoggingMessageParams {
	line := &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(e.Log.Level), Logger: e.Tool, Data: e.Log.Message}
	var sent struct {
		Level mcp.LoggingLevel `json:"level"`
	}
	if len(e.Log.Raw) > 0 && json.Unmarshal(e.Log.Raw, &sent) == nil {
		line.Level = sent.Level
	}
	return line
}

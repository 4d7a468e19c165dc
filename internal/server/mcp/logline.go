package mcpserver

//lint:file-ignore SA1019 clients from before 2026-07-28 know no other way

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// logLine is a line of a tool's log: as the server behind it wrote it, or ours.
func logLine(e *toolroom.Event) *mcp.LoggingMessageParams {
	line := &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(e.Log.Level), Logger: e.Tool, Data: e.Log.Message}
	var sent struct {
		Meta   mcp.Meta         `json:"_meta"`
		Level  mcp.LoggingLevel `json:"level"`
		Logger string           `json:"logger"`
		Data   json.RawMessage  `json:"data"`
	}
	if len(e.Log.Raw) > 0 && json.Unmarshal(e.Log.Raw, &sent) == nil && len(sent.Data) > 0 {
		line.Meta, line.Level, line.Logger, line.Data = sent.Meta, sent.Level, sent.Logger, sent.Data
	}
	return line
}

package room

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
)

// AgentTool is a room as one tool of an agent, for frameworks that take a name, a
// description, a JSON Schema and a function.
type AgentTool struct {
	Name        string
	Description string // at most 1,024 bytes
	InputSchema json.RawMessage

	call func(context.Context, json.RawMessage) (string, *toolroom.Result)
}

// AsTool returns a tool that runs programs in code mode, as the caller in as. Its
// description lists the namespaces that the caller may call now. If it must include
// configured sources, call [Room.Load] first; call AsTool again after sources have changed.
func (r *Room) AsTool(as toolroom.Call) AgentTool {
	t := r.app.AsTool(as)
	return AgentTool{t.Name, t.Description, t.InputSchema, t.Call}
}

// Call runs the program in a model's arguments. Text is the text for the model, also if the
// program fails; the result has all details.
func (t AgentTool) Call(ctx context.Context, arguments json.RawMessage) (text string, result *toolroom.Result) {
	return t.call(ctx, arguments)
}

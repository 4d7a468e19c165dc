package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
)

// AgentTool is a room as one tool of an agent. It has the parts that agent frameworks ask
// for: a name, a description, a JSON Schema and a function.
type AgentTool struct {
	Name        string
	Description string // at most 1,024 bytes
	InputSchema json.RawMessage

	room   *App
	caller toolroom.Call
}

// AsTool returns a tool that runs programs in code mode, as the caller in as. Its
// description lists the namespaces that the caller may call now. If it must include
// configured sources, call [App.Load] first; call AsTool again after sources have changed.
func (a *App) AsTool(as toolroom.Call) AgentTool {
	return AgentTool{
		Name:        "execute_code",
		Description: agentDescription(a.Namespaces(as.Identity)),
		InputSchema: json.RawMessage(agentSchema),
		room:        a,
		caller:      as,
	}
}

// Call runs the program in a model's arguments. text is what the model should see, also if
// the program fails; result has all details.
func (t AgentTool) Call(ctx context.Context, arguments json.RawMessage) (text string, result *toolroom.Result) {
	call := t.caller
	call.Tool, call.Arguments = code.Tool, arguments
	result = t.room.Run(ctx, call)
	return code.Format(result, `results.get("%s")`), result
}

const agentSchema = `{"type":"object","properties":{` +
	`"language":{"type":"string","enum":["python","javascript","typescript"]},` +
	`"code":{"type":"string","description":"the program"},` +
	`"inputs":{"type":"object","description":"variables of the program"},` +
	`"session":{"type":"string","description":"variables live across the programs of one session"},` +
	`"timeout_ms":{"type":"integer"}},` +
	`"required":["language","code"],"additionalProperties":false}`

// maxAgentDescription is the longest description that the model APIs accept.
const maxAgentDescription = 1024

func agentDescription(namespaces map[string]int) string {
	text := "Run a program in a sandbox; tools are its functions. Python: tools.NAMESPACE.NAME(arg=1), or await it to run several with asyncio.gather. " +
		`JavaScript: await tools.NAMESPACE.NAME({arg: 1}). search_tools("what you want to do") finds tools with a ready call for each; describe_tool("ns:name") describes the arguments: search before you conclude that something cannot be done. ` +
		"Results are native values; a failed tool raises ToolError. The value is that of `return` or, in Python, of the last expression. Filter, join and loop in the program; return only what you need."
	separator := " Namespaces (tools): "
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		if name == "code" {
			continue // programs must not run programs
		}
		next := fmt.Sprintf("%s%s (%d)", separator, name, namespaces[name])
		if len(text)+len(next)+len(", …") > maxAgentDescription {
			return text + ", …"
		}
		text, separator = text+next, ", "
	}
	return strings.TrimSpace(text)
}

package code

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/jsonx"
)

const inputSchema = `{
  "type": "object",
  "properties": {
    "language": {"type": "string", "enum": ["python", "javascript", "typescript", "shell", "command", "wasm"], "description": "python, javascript, typescript, shell, command for a program with arguments, or wasm for a module"},
    "code": {"type": "string", "description": "the program"},
    "command": {"type": "array", "items": {"type": "string"}, "description": "for language command: the program and its arguments; for shell and wasm: the arguments"},
    "module": {"type": "string", "description": "for language wasm: a command of WASI preview 1 in base64, gzip allowed"},
    "stdin": {"type": "string"},
    "inputs": {"type": "object", "description": "values that the program has as variables"},
    "session": {"type": "string", "description": "name of a session: variables live across its runs"},
    "engine": {"type": "string", "description": "auto, or the name of an engine"},
    "runtime": {"type": "string", "description": "run in this sandbox: process, docker, ..."},
    "profile": {"type": "string", "enum": ["dev", "standard", "hardened"], "description": "standard has no network and a read-only root"},
    "egress": {"type": "array", "items": {"type": "string"}, "description": "hosts that the program may reach, through the proxy of its environment: host, *.domain or address, with :port or for 443 and 80"},
    "image": {"type": "string", "description": "for runtimes that have images"},
    "timeout_ms": {"type": "integer"},
    "cpu_ms": {"type": "integer"},
    "cpus": {"type": "number"},
    "memory_bytes": {"type": "integer"},
    "output_bytes": {"type": "integer"},
    "max_calls": {"type": "integer"},
    "pids": {"type": "integer"},
    "disk_bytes": {"type": "integer"},
    "best_effort": {"type": "boolean", "description": "run even where a limit cannot be held; the result lists what was"}
  },
  "required": ["language"],
  "additionalProperties": false
}`

// languages maps common abbreviations to the languages of the schema.
var languages = map[string]string{
	"python": "python", "py": "python",
	"javascript": "javascript", "js": "javascript",
	"typescript": "typescript", "ts": "typescript",
	"shell": "shell", "sh": "shell", "bash": "shell",
	"command": "command", "wasm": "wasm",
}

// Language returns the language for a name, such as python for py. ok is false if the name
// is unknown.
func Language(name string) (language string, ok bool) {
	language, ok = languages[name]
	return language, ok
}

// Request holds the arguments of code:execute.
type Request struct {
	toolroom.Program

	inputs   bridge.Map
	function *Function // if the program calls a tool's function
	// toolexecLine is the line that identified a program, sent as Python, as JavaScript.
	toolexecLine int
}

func parse(arguments json.RawMessage) (*Request, error) {
	r := &Request{}
	if err := jsonx.Unmarshal(arguments, r, jsonx.Limits{}); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid arguments of %s: %w", Tool, err)
	}
	if r.Language == "command" && len(r.Command) == 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "language command needs a command").
			WithHint(`for example {"language": "command", "command": ["ls", "-l"]}`)
	}
	if r.Language == "wasm" && len(r.Module) == 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "language wasm needs a module").
			WithHint("give a command of WASI preview 1 in base64 as module, packed by gzip where it is large")
	}
	if r.Language != "command" && r.Language != "wasm" && r.Code == "" {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no code to run").
			WithHint(`for example {"language": "python", "code": "1 + 1"}`)
	}
	if len(r.Inputs) > 0 {
		inputs, err := bridge.FromJSON(r.Inputs)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid inputs: %w", err)
		}
		m, ok := inputs.(bridge.Map)
		if !ok {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the inputs must be one object, whose keys become variables")
		}
		r.inputs = m
	}
	for _, input := range r.inputs {
		if identifier(input.Key) != input.Key || input.Key == "" {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the input %q is not a variable name", input.Key)
		}
	}
	return r, nil
}

// limits returns the requested limits, capped by the config.
func (r *Request) limits(c Config) (toolroom.ExecutionLimits, error) {
	for name, n := range map[string]float64{
		"timeout_ms": float64(r.TimeoutMS), "cpu_ms": float64(r.CPUMS), "cpus": r.CPUs, "memory_bytes": float64(r.MemoryBytes),
		"output_bytes": float64(r.OutputBytes), "max_calls": float64(r.MaxCalls), "pids": float64(r.PIDs), "disk_bytes": float64(r.DiskBytes),
	} {
		if n < 0 {
			return toolroom.ExecutionLimits{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is %v: a limit cannot be negative", name, n).
				WithHint("omit it, or set it to 0, to use the default")
		}
	}
	l := orLimits(r.requestedLimits(), c.Default)
	l.Wall = min(l.Wall, c.Max.Wall)
	l.CPU = min(l.CPU, c.Max.CPU)
	if c.Max.CPUs > 0 {
		l.CPUs = min(l.CPUs, c.Max.CPUs)
	}
	l.Memory = min(l.Memory, c.Max.Memory)
	l.Output = min(l.Output, c.Max.Output)
	l.Calls = min(l.Calls, c.Max.Calls)
	l.PIDs = min(l.PIDs, c.Max.PIDs)
	l.Disk = min(l.Disk, c.Max.Disk)
	return l, nil
}

// requestedLimits returns the limits that the request names.
func (r *Request) requestedLimits() toolroom.ExecutionLimits {
	const most = int64(math.MaxInt64 / time.Millisecond)
	return toolroom.ExecutionLimits{
		Wall: time.Duration(min(r.TimeoutMS, most)) * time.Millisecond, CPU: time.Duration(min(r.CPUMS, most)) * time.Millisecond,
		CPUs: r.CPUs, Memory: r.MemoryBytes, Output: r.OutputBytes, Calls: r.MaxCalls, PIDs: r.PIDs, Disk: r.DiskBytes,
	}
}

// Arguments returns the request as the arguments of a call.
func (r *Request) Arguments() (json.RawMessage, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the arguments of %s: %w", Tool, err)
	}
	return text, nil
}

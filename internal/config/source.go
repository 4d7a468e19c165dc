package config

import (
	"encoding/json"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
)

// Source is one entry of the section "sources". Exactly one of MCP, OpenAPI,
// HTTP and CLI is set. Values of Env, Headers, Query and Auth may hold
// references to secrets (secret://scope/name, env://NAME).
type Source struct {
	MCP     *MCP       `yaml:"mcp,omitempty"`
	OpenAPI *OpenAPI   `yaml:"openapi,omitempty"`
	HTTP    *HTTP      `yaml:"http,omitempty"`
	CLI     *CLISource `yaml:"cli,omitempty"`

	Description string `yaml:"description,omitempty"`
	// Disabled keeps the entry and offers none of its tools.
	Disabled bool `yaml:"disabled,omitempty"`
	// Timeout is the ceiling of the run time of its calls; zero leaves the
	// runner's.
	Timeout time.Duration `yaml:"timeout,omitempty"`
	Tools   Selection     `yaml:"tools,omitempty"`
	// Names says how models see its tools and prompts: scoped (the default),
	// with the namespace, or plain, by the bare name where that is unique.
	Names string `yaml:"names,omitempty"`
	// Tasks makes calls of all its tools tasks for clients that know tasks:
	// optional, or required, which refuses the others. Empty leaves it to the
	// tools.
	Tasks string `yaml:"tasks,omitempty"`
	// Effects declares what calls do.
	Effects Effects `yaml:"effects,omitempty"`
	// Egress is for the connections of this source, beside the section for all.
	Egress Egress `yaml:"egress,omitempty"`

	// Pin and Quarantine are those of [Trust] for this source alone.
	Pin        string `yaml:"pin,omitempty"`
	Quarantine *bool  `yaml:"quarantine,omitempty"`
	// Labels are on all results of the source, and ToolLabels, by name pattern,
	// on those of some tools: untrusted, private, or your own.
	Labels     []string            `yaml:"labels,omitempty"`
	ToolLabels map[string][]string `yaml:"tool_labels,omitempty"`
}

// Selection picks tools of a source by name; * stands for any run of
// characters. An empty Include is all; Exclude wins.
type Selection struct {
	Include []string `yaml:"include,omitempty"`
	Exclude []string `yaml:"exclude,omitempty"`
}

// MCP is an MCP server: a program on stdio (Command) or an endpoint (URL).
type MCP struct {
	Command string            `yaml:"command,omitempty"`
	Args    []string          `yaml:"args,omitempty"`
	Env     map[string]string `yaml:"env,omitempty"`
	Cwd     string            `yaml:"cwd,omitempty"`
	// Idle ends the program after so long without a call; zero never does.
	Idle time.Duration `yaml:"idle,omitempty"`

	URL     string            `yaml:"url,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	OAuth   *OAuthClient      `yaml:"oauth,omitempty"`

	// StartTimeout is how long connecting may take; zero leaves the source's
	// default.
	StartTimeout time.Duration `yaml:"start_timeout,omitempty"`
}

// OpenAPI is an OpenAPI document whose operations are the tools.
type OpenAPI struct {
	// Spec is a file or a URL; BaseURL overrides the document's servers.
	Spec    string `yaml:"spec,omitempty"`
	BaseURL string `yaml:"base_url,omitempty"`
	// Auth holds credentials by the name of the security scheme.
	Auth    map[string]string `yaml:"auth,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	// Include and Exclude select operations as [Selection] does, by
	// operationId or by METHOD and path: "GET /pets/*".
	Include []string `yaml:"include,omitempty"`
	Exclude []string `yaml:"exclude,omitempty"`
}

// HTTP is a service whose tools are described here.
type HTTP struct {
	BaseURL string `yaml:"base_url,omitempty"`
	// Form is path (the default), POST {base}/{tool} with the arguments as the
	// body, or run, POST {base}/tools/run with {"tool": …, "input": …}.
	Form    string            `yaml:"form,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	Tools   []HTTPTool        `yaml:"tools,omitempty"`
}

// HTTPTool is one tool of an HTTP service. With Method or Path the request is
// made from its templates, in which {name} stands for an argument, instead of
// the service's form.
type HTTPTool struct {
	Name         string             `yaml:"name,omitempty"`
	Title        string             `yaml:"title,omitempty"`
	Description  string             `yaml:"description,omitempty"`
	InputSchema  JSON               `yaml:"input_schema,omitempty"`
	OutputSchema JSON               `yaml:"output_schema,omitempty"`
	Method       string             `yaml:"method,omitempty"`
	Path         string             `yaml:"path,omitempty"`
	Query        map[string]string  `yaml:"query,omitempty"`
	Headers      map[string]string  `yaml:"headers,omitempty"`
	Body         JSON               `yaml:"body,omitempty"`
	Hints        Hints              `yaml:"hints,omitempty"`
	Guarantee    toolroom.Guarantee `yaml:"guarantee,omitempty"`
	Timeout      time.Duration      `yaml:"timeout,omitempty"`
	// Result is a JSON pointer to the part of the answer that is the value.
	Result string `yaml:"result,omitempty"`
}

// Hints are [toolroom.Hints] as YAML writes them.
type Hints struct {
	ReadOnly    *bool `yaml:"read_only,omitempty"`
	Destructive *bool `yaml:"destructive,omitempty"`
	Idempotent  *bool `yaml:"idempotent,omitempty"`
	OpenWorld   *bool `yaml:"open_world,omitempty"`
}

// CLISource is a program whose sub-commands are tools.
type CLISource struct {
	// Command is a name on the PATH or a path; Args stand before those of
	// every call.
	Command string            `yaml:"command,omitempty"`
	Args    []string          `yaml:"args,omitempty"`
	Env     map[string]string `yaml:"env,omitempty"`
	Cwd     string            `yaml:"cwd,omitempty"`
	// Tools are the sub-commands that become tools, such as "status" or
	// "remote add"; empty is all that the program's help names.
	Tools []string `yaml:"tools,omitempty"`
}

// JSON is a JSON value that the file writes as YAML or JSON. The order of keys
// is kept.
type JSON json.RawMessage

// MarshalYAML writes the value in YAML's flow style, which is JSON.
func (j JSON) MarshalYAML() (any, error) {
	var n yaml.Node
	if err := yaml.Load(j, &n); err != nil {
		return nil, err
	}
	return n.Content[0], nil
}

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/secret"
)

// Source is one entry of the section "sources". Exactly one of MCP, OpenAPI, GraphQL, HTTP
// and CLI is set. Values of Env, Headers, Query and Auth may contain secret references
// (secret://scope/name, env://NAME).
type Source struct {
	MCP     *MCP       `yaml:"mcp,omitempty"`
	OpenAPI *OpenAPI   `yaml:"openapi,omitempty"`
	GraphQL *GraphQL   `yaml:"graphql,omitempty"`
	HTTP    *HTTP      `yaml:"http,omitempty"`
	CLI     *CLISource `yaml:"cli,omitempty"`

	Description string `yaml:"description,omitempty"`
	// Disabled keeps the entry, but offers none of its tools.
	Disabled bool `yaml:"disabled,omitempty"`
	// Timeout is the maximum run time of its calls; zero means the runner's maximum.
	Timeout time.Duration `yaml:"timeout,omitempty"`
	Tools   Selection     `yaml:"tools,omitempty"`
	// Names sets how models see its tools and prompts: scoped (the default), with the
	// namespace, or plain, by the bare name if it is unique.
	Names string `yaml:"names,omitempty"`
	// Tasks turns calls of all its tools into tasks, for clients that support tasks:
	// optional, or required, which refuses other clients. Empty leaves the choice to the
	// tools.
	Tasks string `yaml:"tasks,omitempty"`
	// Output sets what happens to values that do not fit the output schemas of its tools:
	// strict, warn (the default) or off; see [toolroom.OutputCheck].
	Output string `yaml:"output,omitempty"`
	// Effects declares the effects of calls.
	Effects Effects `yaml:"effects,omitempty"`
	// Egress adds rules for the connections of this source to the section "egress".
	Egress Egress `yaml:"egress,omitempty"`

	// Sandbox is where its program runs; nil runs it with the rights of this user.
	Sandbox *Sandbox `yaml:"sandbox,omitempty"`

	// Definitions and Quarantine override those of [Trust] for this source.
	Definitions string `yaml:"definitions,omitempty"`
	Quarantine  *bool  `yaml:"quarantine,omitempty"`
	// Labels are the labels of all results of the source, and ToolLabels those of some
	// tools, by name pattern: untrusted, private, or your own.
	Labels     []string            `yaml:"labels,omitempty"`
	ToolLabels map[string][]string `yaml:"tool_labels,omitempty"`
}

// Kind returns the kind of the source.
func (s Source) Kind() toolroom.SourceKind {
	switch {
	case s.MCP != nil:
		return toolroom.SourceMCP
	case s.OpenAPI != nil:
		return toolroom.SourceOpenAPI
	case s.GraphQL != nil:
		return toolroom.SourceGraphQL
	case s.CLI != nil:
		return toolroom.SourceCLI
	default:
		return toolroom.SourceHTTP
	}
}

// WithHeader returns the source with a header for each of its requests. It reports false if
// the source sends none.
func (s Source) WithHeader(name, value string) (Source, bool) {
	s = s.clone()
	var headers *map[string]string
	switch {
	case s.MCP != nil && s.MCP.URL != "":
		headers = &s.MCP.Headers
	case s.HTTP != nil:
		headers = &s.HTTP.Headers
	case s.GraphQL != nil:
		headers = &s.GraphQL.Headers
	case s.OpenAPI != nil:
		headers = &s.OpenAPI.Headers
	default:
		return s, false
	}
	if *headers = maps.Clone(*headers); *headers == nil {
		*headers = map[string]string{}
	}
	(*headers)[name] = value
	return s, true
}

// clone returns a source whose sections can be changed; their maps and lists are shared.
func (s Source) clone() Source {
	s.MCP, s.OpenAPI, s.GraphQL, s.HTTP, s.CLI = clone(s.MCP), clone(s.OpenAPI), clone(s.GraphQL), clone(s.HTTP), clone(s.CLI)
	return s
}

func clone[T any](section *T) *T {
	if section == nil {
		return nil
	}
	copied := *section
	return &copied
}

// Selection selects tools of a source by name; * matches any characters. An empty Include
// selects all; Exclude wins.
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
	// Idle ends the program after this time without a call; zero means never.
	Idle time.Duration `yaml:"idle,omitempty"`

	URL     string            `yaml:"url,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	OAuth   *OAuthClient      `yaml:"oauth,omitempty"`

	// StartTimeout limits connecting; zero means the source's default.
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
	// Include and Exclude select operations like [Selection], by operationId or by METHOD
	// and path: "GET /pets/*".
	Include   []string `yaml:"include,omitempty"`
	Exclude   []string `yaml:"exclude,omitempty"`
	Responses `yaml:",inline"`
}

// GraphQL is a GraphQL endpoint whose queries and mutations are the tools.
type GraphQL struct {
	URL     string            `yaml:"url,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	// Include and Exclude select queries and mutations like [Selection], by name; query and
	// mutation stand for all of a kind.
	Include []string `yaml:"include,omitempty"`
	Exclude []string `yaml:"exclude,omitempty"`
	// Depth is how deep the fields go that a call selects if it names none (2, at most 10).
	Depth     int `yaml:"depth,omitempty"`
	Responses `yaml:",inline"`
}

// Responses limits what a service may answer.
type Responses struct {
	// MaxResponse is the maximum size of a response in bytes; zero means 16 MiB.
	MaxResponse int64 `yaml:"max_response,omitempty"`
	// RedirectHosts are hosts to which the service may redirect besides its own. They
	// never receive credentials.
	RedirectHosts []string `yaml:"redirect_hosts,omitempty"`
}

// HTTP is a service whose tools are defined in the config.
type HTTP struct {
	BaseURL string `yaml:"base_url,omitempty"`
	// Form is path (the default), POST {base}/{tool} with the arguments as the body, or
	// run, POST {base}/tools/run with {"tool": …, "input": …}.
	Form      string            `yaml:"form,omitempty"`
	Headers   map[string]string `yaml:"headers,omitempty"`
	Tools     []HTTPTool        `yaml:"tools,omitempty"`
	Responses `yaml:",inline"`
}

// HTTPTool is one tool of an HTTP service. If Method or Path is set, the request is built
// from the tool's templates, in which {name} stands for an argument, instead of the
// service's form.
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
	// Result is a JSON pointer to the value in the response. Map is an expression that
	// computes the value from it.
	Result string `yaml:"result,omitempty"`
	Map    string `yaml:"map,omitempty"`
	// Tags are words for search. Sensitive lists JSON pointers of arguments that are never
	// recorded.
	Tags      []string `yaml:"tags,omitempty"`
	Sensitive []string `yaml:"sensitive,omitempty"`
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
	// Command is a name on the PATH or a path. Args precede those of every call.
	Command string            `yaml:"command,omitempty"`
	Args    []string          `yaml:"args,omitempty"`
	Env     map[string]string `yaml:"env,omitempty"`
	Cwd     string            `yaml:"cwd,omitempty"`
	// Tools lists the sub-commands that become tools, such as "status" or "remote add";
	// empty means all that the program's help lists.
	Tools []string `yaml:"tools,omitempty"`
	// Allow lists flags and commands that Toolroom refuses for some programs, because they
	// run programs or write elsewhere, and Deny those that it refuses for this source:
	// "-c", "config", "push --force".
	Allow []string `yaml:"allow,omitempty"`
	Deny  []string `yaml:"deny,omitempty"`
}

// JSON is a JSON value that the file contains as YAML or JSON. It preserves the order of
// keys.
type JSON json.RawMessage

// MarshalYAML writes the value in YAML's flow style, which is JSON.
func (j JSON) MarshalYAML() (any, error) {
	var n yaml.Node
	if err := yaml.Load(j, &n); err != nil {
		return nil, err
	}
	return n.Content[0], nil
}

// Effects declares the effects of calls, by tool name (* matches any characters):
// "file.write:{path}", "host.post:api.example.com", "command:{command}", "sql:{query}",
// "spend:{amount}", "send", "destroy", "none". {name} stands for an argument.
type Effects map[string][]string

func (c checker) checkEffects(key string, declared Effects) {
	for _, pattern := range slices.Sorted(maps.Keys(declared)) {
		at := key + "." + pattern
		c.checkGlobs(at, []string{pattern})
		for i, text := range declared[pattern] {
			if err := effects.CheckDeclared(text); err != nil {
				c.addProblem(fmt.Sprintf("%s[%d]", at, i), err.Error(), "for example file.write:{path}")
			}
		}
	}
}

// Scopes returns the scopes of the secrets that a source refers to, sorted.
func (s Source) Scopes() []string {
	// It is plain data, so encoding cannot fail. References contain no character that JSON
	// escapes.
	text, _ := json.Marshal(s)
	var scopes []string
	for _, reference := range secret.References(string(text)) {
		if ref, err := secret.ParseRef(reference); err == nil && ref.Scope != "" {
			scopes = append(scopes, ref.Scope)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

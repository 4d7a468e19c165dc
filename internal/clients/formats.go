package clients

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v4"
)

// Each function below reads one format of the clients' files.

// editorFolders are the placeholders of VS Code, and of editors that are derived from it.
func editorFolders(at BaseDirs) map[string]string {
	return map[string]string{
		"userHome": at.Home, "workspaceFolder": at.Dir,
		"workspaceFolderBasename": filepath.Base(at.Dir), "pathSeparator": string(filepath.Separator), "/": string(filepath.Separator),
	}
}

// servers is the file format of most clients. VS Code calls the member servers, the others
// mcpServers.
type servers struct {
	MCPServers map[string]json.RawMessage `json:"mcpServers"`
	Servers    map[string]json.RawMessage `json:"servers"`
}

func (s servers) entries() []entry {
	var entries []entry
	for _, group := range []map[string]json.RawMessage{s.MCPServers, s.Servers} {
		for name, text := range group {
			server, err := decodeServer(text)
			entries = append(entries, entry{name, server, err})
		}
	}
	return entries
}

func readServers(text []byte, _ BaseDirs) ([]entry, error) {
	var s servers
	err := decodeJSON(text, &s)
	return s.entries(), err
}

// readClaudeCode reads the servers of the user and those of this project.
func readClaudeCode(text []byte, at BaseDirs) ([]entry, error) {
	var f struct {
		servers
		Projects map[string]servers `json:"projects"`
	}
	err := decodeJSON(text, &f)
	return slices.Concat(f.entries(), f.Projects[at.Dir].entries()), err
}

func readVSCodeSettings(text []byte, _ BaseDirs) ([]entry, error) {
	var f struct {
		MCP servers `json:"mcp"`
	}
	err := decodeJSON(text, &f)
	return f.MCP.entries(), err
}

// readGemini treats a plain url as the older transport, as Gemini does.
func readGemini(text []byte, at BaseDirs) ([]entry, error) {
	entries, err := readServers(text, at)
	for i, e := range entries {
		if e.server.URL != "" && e.server.HTTPURL == "" {
			entries[i].server.Type = cmp.Or(e.server.Type, "sse")
		}
	}
	return entries, err
}

// decodeServer decodes one entry. It accepts the member names of all clients, because no
// name means different things to two of them.
func decodeServer(text []byte) (server, error) {
	var s struct {
		server
		// Values may be numbers and booleans.
		Env          map[string]scalar `json:"env"`
		Headers      map[string]scalar `json:"headers"`
		Timeout      float64           `json:"timeout"` // ms
		IncludeTools []string          `json:"includeTools"`
		ExcludeTools []string          `json:"excludeTools"`
		ServerURL    string            `json:"serverUrl"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return server{}, fmt.Errorf("%s is %s, want %s", kindField(kind), kind.Value, jsonType(kind.Type))
		}
		return server{}, err
	}
	s.server.Env, s.server.Headers = texts(s.Env), texts(s.Headers)
	s.URL = cmp.Or(s.HTTPURL, s.ServerURL, s.URL)
	s.callTime = seconds(s.Timeout / 1000)
	s.include, s.exclude = s.IncludeTools, s.ExcludeTools
	return s.server, nil
}

func kindField(e *json.UnmarshalTypeError) string {
	return cmp.Or(strings.TrimPrefix(e.Field, "server."), "the server")
}

// scalar is a string, or a number or boolean that is converted to one.
type scalar string

// UnmarshalJSON accepts values that programs would receive as text.
func (s *scalar) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case '"':
		return json.Unmarshal(text, (*string)(s))
	case '{', '[':
		return fmt.Errorf("a value is %s, want a text", text[:1])
	case 'n':
		return nil
	default:
		*s = scalar(text)
		return nil
	}
}

func texts(in map[string]scalar) map[string]string {
	out := make(map[string]string, len(in))
	for key, value := range in {
		out[key] = string(value)
	}
	return out
}

// seconds converts a number of seconds, at most a day.
func seconds(n float64) time.Duration {
	const day = 24 * 60 * 60
	return time.Duration(min(max(n, 0), day) * float64(time.Second))
}

// readCopilot reads tools, the list of enabled tools; "*" enables all.
func readCopilot(text []byte, at BaseDirs) ([]entry, error) {
	entries, err := readServers(text, at)
	var f struct {
		Servers map[string]struct{ Tools []string } `json:"mcpServers"`
	}
	if err != nil || decodeJSON(text, &f) != nil {
		return entries, err
	}
	for i, e := range entries {
		if tools := f.Servers[e.name].Tools; !slices.Contains(tools, "*") {
			entries[i].server.include = tools
		}
	}
	return entries, nil
}

func readZed(text []byte, _ BaseDirs) ([]entry, error) {
	var f struct {
		Servers map[string]json.RawMessage `json:"context_servers"`
	}
	err := decodeJSON(text, &f)
	var entries []entry
	for name, text := range f.Servers {
		var more struct {
			Enabled  *bool           `json:"enabled"`
			Settings json.RawMessage `json:"settings"`
			Command  json.RawMessage `json:"command"`
			URL      string          `json:"url"`
		}
		if json.Unmarshal(text, &more) == nil && more.Command == nil && more.URL == "" {
			continue // an extension brings it
		}
		e := entry{name: name}
		e.server, e.problem = decodeServer(text)
		e.server.Disabled = more.Enabled != nil && !*more.Enabled
		entries = append(entries, e)
	}
	return entries, err
}

// readOpencode also reads the form of version 2, which has the servers in mcp.servers.
func readOpencode(text []byte, _ BaseDirs) ([]entry, error) {
	var f struct {
		MCP map[string]json.RawMessage `json:"mcp"`
	}
	if err := decodeJSON(text, &f); err != nil {
		return nil, err
	}
	all := f.MCP
	var deeper map[string]json.RawMessage
	if inner := f.MCP["servers"]; inner != nil && json.Unmarshal(inner, &deeper) == nil && deeper["type"] == nil {
		all = deeper
	}
	var entries []entry
	for name, text := range all {
		var s struct {
			Type        string            `json:"type"`
			Command     []string          `json:"command"`
			Environment map[string]scalar `json:"environment"`
			Cwd         string            `json:"cwd"`
			URL         string            `json:"url"`
			Headers     map[string]scalar `json:"headers"`
			Enabled     *bool             `json:"enabled"`
		}
		e := entry{name: name, problem: json.Unmarshal(text, &s)}
		e.server = server{URL: s.URL, Env: texts(s.Environment), Headers: texts(s.Headers), Cwd: s.Cwd, Disabled: s.Enabled != nil && !*s.Enabled}
		if len(s.Command) > 0 {
			e.server.Command, e.server.Args = s.Command[0], s.Command[1:]
		}
		for _, v := range [2]map[string]string{e.server.Env, e.server.Headers} {
			for key, value := range v { // {env:NAME} and {file:PATH}
				if inner, ok := strings.CutPrefix(value, "{env:"); ok && strings.HasSuffix(inner, "}") {
					v[key] = "${" + inner
				} else if strings.Contains(value, "{env:") || strings.Contains(value, "{file:") {
					e.problem = fmt.Errorf("%s holds a variable of opencode: write its value", key)
				}
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// notYAML returns an error that begins with the place where the text is not as it must be.
func notYAML(err error) error {
	var e *yaml.LoadError
	if !errors.As(err, &e) || e.Mark.Line < 1 {
		return fmt.Errorf("1:1: not YAML: %w", err)
	}
	return fmt.Errorf("%d:%d: %s", e.Mark.Line, max(e.Mark.Column, 1), e.Message)
}

// atNode adds the place of a node to an error about it.
func atNode(n *yaml.Node, err error) error {
	var e *yaml.LoadError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Mark.Line > 0:
		return fmt.Errorf("line %d: %s", e.Mark.Line, e.Message)
	}
	return fmt.Errorf("line %d: %w", n.Line, err)
}

// readGoose reads the extensions that are MCP servers; others are part of goose.
func readGoose(text []byte, _ BaseDirs) ([]entry, error) {
	if len(text) > maxFlynn {
		return nil, fmt.Errorf("1:1: it has more than %d bytes", maxFlynn)
	}
	var f struct {
		Extensions map[string]yaml.Node `yaml:"extensions"`
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil, notYAML(err)
	}
	var entries []entry
	for name, node := range f.Extensions {
		var s struct {
			Type    string            `yaml:"type"`
			Enabled *bool             `yaml:"enabled"`
			Command string            `yaml:"cmd"`
			Args    []string          `yaml:"args"`
			Env     map[string]string `yaml:"envs"`
			Keys    []string          `yaml:"env_keys"`
			URI     string            `yaml:"uri"`
			Headers map[string]string `yaml:"headers"`
			Timeout float64           `yaml:"timeout"` // s
			Tools   []string          `yaml:"available_tools"`
		}
		err := atNode(&node, node.Decode(&s))
		if err == nil && s.Type != "stdio" && s.Type != "streamable_http" && s.Type != "sse" {
			continue
		}
		if err == nil && len(s.Keys) > 0 {
			err = errors.New("goose keeps its variables " + strings.Join(s.Keys, ", ") + " in a keyring: give them to toolroom sources add")
		}
		entries = append(entries, entry{name, server{
			Type: s.Type, Command: s.Command, Args: s.Args, Env: s.Env, URL: s.URI, Headers: s.Headers,
			Disabled: s.Enabled != nil && !*s.Enabled, callTime: seconds(s.Timeout), include: s.Tools,
		}, err})
	}
	return entries, nil
}

// codexServer adds Codex's own members to a server.
type codexServer struct {
	server
	Enabled           *bool             `toml:"enabled"`
	EnabledTools      []string          `toml:"enabled_tools"`
	DisabledTools     []string          `toml:"disabled_tools"`
	StartupTimeoutSec float64           `toml:"startup_timeout_sec"`
	ToolTimeoutSec    float64           `toml:"tool_timeout_sec"`
	EnvHTTPHeaders    map[string]string `toml:"env_http_headers"`
	BearerTokenEnvVar string            `toml:"bearer_token_env_var"`
}

// maxTOML bounds TOML, in bytes: its parser recurses for each bracket.
const maxTOML = 512 << 10

func readCodex(text []byte, _ BaseDirs) ([]entry, error) {
	if len(text) > maxTOML {
		return nil, fmt.Errorf("1:1: it has more than %d bytes", maxTOML)
	}
	var f struct {
		Servers map[string]toml.Primitive `toml:"mcp_servers"`
	}
	meta, err := toml.Decode(string(text), &f)
	var parse toml.ParseError
	switch {
	case errors.As(err, &parse):
		return nil, fmt.Errorf("%d:%d: not TOML: %s", parse.Position.Line, parse.Position.Col, parse.Message)
	case err != nil:
		return nil, fmt.Errorf("1:1: %w", err)
	}
	var entries []entry
	for name, primitive := range f.Servers {
		var s codexServer
		err := meta.PrimitiveDecode(primitive, &s)
		s.Disabled = s.Enabled != nil && !*s.Enabled
		s.include, s.exclude = s.EnabledTools, s.DisabledTools
		s.startTimeout, s.callTime = seconds(s.StartupTimeoutSec), seconds(s.ToolTimeoutSec)
		s.envHeaders, s.bearerEnv = s.EnvHTTPHeaders, s.BearerTokenEnvVar
		entries = append(entries, entry{name, s.server, err})
	}
	return entries, nil
}

package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Paths and formats are those in the clients' documentation, named at each.

// windsurf: https://docs.windsurf.com/windsurf/cascade/mcp
func windsurf() client {
	return client{
		name: "windsurf",
		files: func(at Place) []file {
			return []file{{filepath.Join(at.Home, ".codeium", "windsurf", "mcp_config.json"), readServers}}
		},
	}
}

// copilot is Copilot CLI:
// https://docs.github.com/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
func copilot() client {
	return client{
		name: "copilot",
		files: func(at Place) []file {
			return []file{
				{filepath.Join(at.Dir, ".github", "mcp.json"), readCopilot},
				{filepath.Join(at.Home, ".copilot", "mcp-config.json"), readCopilot},
			}
		},
	}
}

// readCopilot reads tools, the list of enabled tools; "*" enables all.
func readCopilot(text []byte, at Place) ([]entry, error) {
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

// zed: https://zed.dev/docs/ai/mcp
func zed() client {
	return client{
		name: "zed",
		files: func(at Place) []file {
			return []file{
				{filepath.Join(at.Dir, ".zed", "settings.json"), readZed},
				{filepath.Join(at.Home, ".config", "zed", "settings.json"), readZed},
				{filepath.Join(at.Home, "AppData", "Roaming", "Zed", "settings.json"), readZed},
			}
		},
	}
}

func readZed(text []byte, _ Place) ([]entry, error) {
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

// opencode: https://opencode.ai/docs/mcp-servers
func opencode() client {
	return client{
		name: "opencode",
		files: func(at Place) []file {
			var files []file
			for _, folder := range []string{at.Dir, filepath.Join(at.Dir, ".opencode"), filepath.Join(at.Home, ".config", "opencode")} {
				files = append(files, file{filepath.Join(folder, "opencode.json"), readOpencode}, file{filepath.Join(folder, "opencode.jsonc"), readOpencode})
			}
			return files
		},
	}
}

// readOpencode also reads the form of version 2, which has the servers in mcp.servers.
func readOpencode(text []byte, _ Place) ([]entry, error) {
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

// goose: https://block.github.io/goose/docs/guides/config-files
func goose() client {
	return client{
		name: "goose",
		files: func(at Place) []file {
			return []file{
				{filepath.Join(at.Home, ".config", "goose", "config.yaml"), readGoose},
				{filepath.Join(at.Home, "AppData", "Roaming", "Block", "goose", "config", "config.yaml"), readGoose},
			}
		},
	}
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
func readGoose(text []byte, _ Place) ([]entry, error) {
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

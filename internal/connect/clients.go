package connect

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// EntryName is the name of Toolroom in the clients' files.
const EntryName = "toolroom"

// Place is where clients keep their files: the user's home folder.
type Place struct{ Home string }

// Server is Toolroom as a client reaches it: a command, or a URL with a bearer token.
type Server struct {
	Command string
	Args    []string
	URL     string
	Token   string
}

// Client is a program that has MCP servers.
type Client struct {
	Name, Title string
	// Imports is its name in package imports.
	Imports string
	// HTTP reports whether its file can name a URL with headers.
	HTTP bool
	// Next is what a person does then.
	Next string

	// files are the paths of its file on the systems; the first is that of Linux.
	files func(home string) []string
	form  form
	entry func(Server) any
}

// The paths and formats are those of the clients' documentation, named at each.
func clients() []Client {
	mcpServers := jsonForm{[]string{"mcpServers"}}
	return []Client{
		{
			// https://code.claude.com/docs/en/mcp (scope user)
			Name: "claude-code", Title: "Claude Code", Imports: "claude", HTTP: true, Next: "start claude anew; /mcp shows the server",
			files: at(".claude.json"), form: mcpServers, entry: typed("stdio", "http"),
		},
		{
			// https://modelcontextprotocol.io/docs/develop/connect-local-servers
			Name: "claude-desktop", Title: "Claude Desktop", Imports: "claude", Next: "quit and start Claude Desktop",
			files: inApps("Claude", "claude_desktop_config.json"), form: mcpServers, entry: bare("url"),
		},
		{
			// https://developers.openai.com/codex/mcp
			Name: "codex", Title: "Codex", Imports: "codex", HTTP: true, Next: "start codex anew; /mcp shows the server",
			files: at(".codex", "config.toml"), form: tomlForm{"mcp_servers"}, entry: codexEntry,
		},
		{
			// https://docs.cursor.com/context/model-context-protocol
			Name: "cursor", Title: "Cursor", Imports: "cursor", HTTP: true, Next: "see Cursor Settings, MCP",
			files: at(".cursor", "mcp.json"), form: mcpServers, entry: bare("url"),
		},
		{
			// https://code.visualstudio.com/docs/agents/reference/mcp-configuration
			Name: "vscode", Title: "VS Code", Imports: "vscode", HTTP: true, Next: "run the command MCP: List Servers",
			files: inApps("Code", "User", "mcp.json"), form: jsonForm{[]string{"servers"}}, entry: typed("stdio", "http"),
		},
		{
			// https://docs.windsurf.com/windsurf/cascade/mcp
			Name: "windsurf", Title: "Windsurf", Imports: "windsurf", HTTP: true, Next: "refresh the MCP servers of Cascade",
			files: at(".codeium", "windsurf", "mcp_config.json"), form: mcpServers, entry: bare("serverUrl"),
		},
		{
			// https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
			Name: "zed", Title: "Zed", Imports: "zed", HTTP: true, Next: "see the settings of the Agent Panel",
			files: func(home string) []string {
				return []string{filepath.Join(home, ".config", "zed", "settings.json"), filepath.Join(home, "AppData", "Roaming", "Zed", "settings.json")}
			},
			form: jsonForm{[]string{"context_servers"}}, entry: bare("url"),
		},
		{
			// https://geminicli.com/docs/tools/mcp-server
			Name: "gemini", Title: "Gemini CLI", Imports: "gemini", HTTP: true, Next: "start gemini anew; /mcp shows the server",
			files: at(".gemini", "settings.json"), form: mcpServers, entry: bare("httpUrl"),
		},
		{
			// https://opencode.ai/docs/mcp-servers; version 2 reads this form too:
			// https://opencode.ai/docs/migrate-v1
			Name: "opencode", Title: "opencode", Imports: "opencode", HTTP: true, Next: "start opencode anew",
			files: func(home string) []string {
				folder := filepath.Join(home, ".config", "opencode")
				return []string{filepath.Join(folder, "opencode.json"), filepath.Join(folder, "opencode.jsonc")}
			},
			form: jsonForm{[]string{"mcp"}}, entry: opencodeEntry,
		},
		{
			// https://block.github.io/goose/docs/guides/config-files
			Name: "goose", Title: "Goose", Imports: "goose", HTTP: true, Next: "start a new session of goose",
			files: func(home string) []string {
				return []string{filepath.Join(home, ".config", "goose", "config.yaml"), filepath.Join(home, "AppData", "Roaming", "Block", "goose", "config", "config.yaml")}
			},
			form: yamlForm{"extensions"}, entry: gooseEntry,
		},
		{
			// https://docs.github.com/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
			Name: "copilot", Title: "Copilot CLI", Imports: "copilot", HTTP: true, Next: "start copilot anew; /mcp show lists the server",
			files: at(".copilot", "mcp-config.json"), form: mcpServers, entry: copilotEntry,
		},
	}
}

// Clients returns all clients that can be connected.
func Clients() []Client { return clients() }

// Find returns a client by its name.
func Find(name string) (Client, bool) {
	all := clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// Names returns the names of all clients.
func Names() []string {
	var names []string
	for _, c := range clients() {
		names = append(names, c.Name)
	}
	return names
}

func at(path ...string) func(home string) []string {
	return func(home string) []string { return []string{filepath.Join(append([]string{home}, path...)...)} }
}

// inApps returns paths in the folders of programs' settings on Linux, macOS and Windows.
func inApps(path ...string) func(home string) []string {
	rest := filepath.Join(path...)
	return func(home string) []string {
		return []string{
			filepath.Join(home, ".config", rest),
			filepath.Join(home, "Library", "Application Support", rest),
			filepath.Join(home, "AppData", "Roaming", rest),
		}
	}
}

// Path returns the client's file, and whether the client seems to be installed: the file or
// its folder exists. The paths of all systems are tried on every system.
func (c Client) Path(place Place) (path string, installed bool) {
	files := c.files(place.Home)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			return f, true
		}
	}
	for _, f := range files {
		folder := filepath.Dir(f)
		if info, err := os.Stat(folder); err == nil && info.IsDir() && folder != place.Home {
			return f, true
		}
	}
	n := map[string]int{"darwin": 1, "windows": len(files) - 1}[runtime.GOOS]
	return files[min(n, len(files)-1)], false
}

// The entries have their members in the order of the clients' documentation.

type plainEntry struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	URL     string            `json:"url,omitempty"`
	HTTPURL string            `json:"httpUrl,omitempty"`
	Server  string            `json:"serverUrl,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Tools   []string          `json:"tools,omitempty"`
}

func headersOf(s Server) map[string]string {
	if s.Token == "" {
		return nil
	}
	return map[string]string{"Authorization": "Bearer " + s.Token}
}

// bare is an entry without a type; url is the member for the URL.
func bare(url string) func(Server) any {
	return func(s Server) any {
		e := plainEntry{Command: s.Command, Args: s.Args, Headers: headersOf(s)}
		switch url {
		case "httpUrl":
			e.HTTPURL = s.URL
		case "serverUrl":
			e.Server = s.URL
		default:
			e.URL = s.URL
		}
		return e
	}
}

// typed is an entry with a type.
func typed(stdio, http string) func(Server) any {
	return func(s Server) any {
		e := plainEntry{Type: stdio, Command: s.Command, Args: s.Args, URL: s.URL, Headers: headersOf(s)}
		if s.URL != "" {
			e.Type = http
		}
		return e
	}
}

func copilotEntry(s Server) any {
	e := typed("local", "http")(s).(plainEntry)
	e.Tools = []string{"*"}
	return e
}

func opencodeEntry(s Server) any {
	type entry struct {
		Type    string            `json:"type"`
		Command []string          `json:"command,omitempty"`
		URL     string            `json:"url,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
		Enabled bool              `json:"enabled"`
	}
	if s.URL != "" {
		return entry{Type: "remote", URL: s.URL, Headers: headersOf(s), Enabled: true}
	}
	return entry{Type: "local", Command: append([]string{s.Command}, s.Args...), Enabled: true}
}

func codexEntry(s Server) any {
	return struct {
		Command string            `toml:"command,omitempty"`
		Args    []string          `toml:"args,omitempty"`
		URL     string            `toml:"url,omitempty"`
		Headers map[string]string `toml:"http_headers,omitempty"`
	}{s.Command, s.Args, s.URL, headersOf(s)}
}

func gooseEntry(s Server) any {
	type entry struct {
		Type    string            `yaml:"type"`
		Name    string            `yaml:"name"`
		Enabled bool              `yaml:"enabled"`
		Command string            `yaml:"cmd,omitempty"`
		Args    []string          `yaml:"args,omitempty"`
		URI     string            `yaml:"uri,omitempty"`
		Headers map[string]string `yaml:"headers,omitempty"`
		Timeout int               `yaml:"timeout"`
	}
	e := entry{Type: "stdio", Name: EntryName, Enabled: true, Command: s.Command, Args: s.Args, Timeout: 300}
	if s.URL != "" {
		e.Type, e.URI, e.Headers = "streamable_http", s.URL, headersOf(s)
	}
	return e
}

// Package clients knows the MCP clients of this machine: where their configs are and which
// form they have. [Prepare] puts Toolroom into a config, and [Undo] takes it out again;
// [Read] returns the servers of a config as sources for toolroom.yaml.
package clients

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// EntryName is the name of Toolroom in the clients' files.
const EntryName = "toolroom"

// BaseDirs is where clients keep their files: the user's home folder and the project's folder.
type BaseDirs struct{ Home, Dir string }

// Client is a program that has MCP servers.
type Client struct {
	Name, Title string
	// Import is the name under which its servers are imported. Several clients may share it.
	Import string
	// HTTP reports whether its file can name a URL with headers.
	HTTP bool
	// Next is what a person does when Toolroom is in the file.
	Next string

	files []file
	form  form
	entry func(Self) any
	// editor means that its files have the placeholders of VS Code for folders.
	editor bool
	// bareVariables means that $VAR is the same as ${VAR}.
	bareVariables bool
}

// file is one file of a client. Those of all systems are tried on every system.
type file struct {
	// path is relative to the user's home folder, or to that of the project.
	path    string
	project bool
	read    func(text []byte, at BaseDirs) ([]entry, error)
	// foreign means that Toolroom is not put into this file.
	foreign bool
}

func user(read func([]byte, BaseDirs) ([]entry, error), path string) file {
	return file{path: path, read: read}
}

func project(read func([]byte, BaseDirs) ([]entry, error), path string) file {
	return file{path: path, read: read, project: true}
}

// inApps returns files in a folder of programs' settings on Linux, macOS and Windows.
func inApps(folder string, files ...file) []file {
	var all []file
	for _, settings := range []string{".config", "Library/Application Support", "AppData/Roaming"} {
		for _, f := range files {
			f.path = settings + "/" + folder + "/" + f.path
			all = append(all, f)
		}
	}
	return all
}

// Clients returns all clients. Paths and formats are those of the clients' documentation,
// named at each.
func Clients() []Client {
	mcpServers := jsonForm{[]string{"mcpServers"}}
	return []Client{
		{
			// https://code.claude.com/docs/en/mcp (scope user)
			Name: "claude-code", Title: "Claude Code", Import: "claude", HTTP: true, Next: "restart claude; /mcp shows the server",
			files: []file{project(readServers, ".mcp.json"), user(readClaudeCode, ".claude.json")},
			form:  mcpServers, entry: typed("stdio", "http"),
		},
		{
			// https://modelcontextprotocol.io/docs/develop/connect-local-servers
			Name: "claude-desktop", Title: "Claude Desktop", Import: "claude", Next: "quit and start Claude Desktop",
			files: inApps("Claude", user(readServers, "claude_desktop_config.json")),
			form:  mcpServers, entry: bare("url"),
		},
		{
			// https://developers.openai.com/codex/mcp
			Name: "codex", Title: "Codex", Import: "codex", HTTP: true, Next: "restart codex; /mcp shows the server",
			files: []file{project(readCodex, ".codex/config.toml"), user(readCodex, ".codex/config.toml")},
			form:  tomlForm{"mcp_servers"}, entry: codexEntry,
		},
		{
			// https://docs.cursor.com/context/model-context-protocol
			Name: "cursor", Title: "Cursor", Import: "cursor", HTTP: true, Next: "see Cursor Settings, MCP", editor: true,
			files: []file{project(readServers, ".cursor/mcp.json"), user(readServers, ".cursor/mcp.json")},
			form:  mcpServers, entry: bare("url"),
		},
		{
			// https://code.visualstudio.com/docs/agents/reference/mcp-configuration
			Name: "vscode", Title: "VS Code", Import: "vscode", HTTP: true, Next: "run the command MCP: List Servers", editor: true,
			files: append([]file{project(readServers, ".vscode/mcp.json")},
				inApps("Code/User", user(readServers, "mcp.json"), file{path: "settings.json", read: readVSCodeSettings, foreign: true})...),
			form: jsonForm{[]string{"servers"}}, entry: typed("stdio", "http"),
		},
		{
			// https://docs.windsurf.com/windsurf/cascade/mcp
			Name: "windsurf", Title: "Windsurf", Import: "windsurf", HTTP: true, Next: "refresh the MCP servers of Cascade",
			files: []file{user(readServers, ".codeium/windsurf/mcp_config.json")},
			form:  mcpServers, entry: bare("serverUrl"),
		},
		{
			// https://zed.dev/docs/ai/mcp and https://zed.dev/docs/configuring-zed
			Name: "zed", Title: "Zed", Import: "zed", HTTP: true, Next: "see the settings of the Agent Panel",
			files: []file{project(readZed, ".zed/settings.json"), user(readZed, ".config/zed/settings.json"), user(readZed, "AppData/Roaming/Zed/settings.json")},
			form:  jsonForm{[]string{"context_servers"}}, entry: bare("url"),
		},
		{
			// https://geminicli.com/docs/tools/mcp-server
			Name: "gemini", Title: "Gemini CLI", Import: "gemini", HTTP: true, Next: "restart gemini; /mcp shows the server", bareVariables: true,
			files: []file{project(readGemini, ".gemini/settings.json"), user(readGemini, ".gemini/settings.json")},
			form:  mcpServers, entry: bare("httpUrl"),
		},
		{
			// https://opencode.ai/docs/mcp-servers; version 2 reads this form too:
			// https://opencode.ai/docs/migrate-v1
			Name: "opencode", Title: "opencode", Import: "opencode", HTTP: true, Next: "restart opencode",
			files: []file{
				project(readOpencode, "opencode.json"), project(readOpencode, "opencode.jsonc"),
				project(readOpencode, ".opencode/opencode.json"), project(readOpencode, ".opencode/opencode.jsonc"),
				user(readOpencode, ".config/opencode/opencode.json"), user(readOpencode, ".config/opencode/opencode.jsonc"),
			},
			form: jsonForm{[]string{"mcp"}}, entry: opencodeEntry,
		},
		{
			// https://block.github.io/goose/docs/guides/config-files
			Name: "goose", Title: "Goose", Import: "goose", HTTP: true, Next: "start a new session of goose",
			files: []file{user(readGoose, ".config/goose/config.yaml"), user(readGoose, "AppData/Roaming/Block/goose/config/config.yaml")},
			form:  yamlForm{"extensions"}, entry: gooseEntry,
		},
		{
			// https://docs.github.com/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
			Name: "copilot", Title: "Copilot CLI", Import: "copilot", HTTP: true, Next: "restart copilot; /mcp show lists the server",
			files: []file{project(readCopilot, ".github/mcp.json"), user(readCopilot, ".copilot/mcp-config.json")},
			form:  mcpServers, entry: copilotEntry,
		},
	}
}

// Find returns a client by its name.
func Find(name string) (Client, bool) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// Names returns the names of all clients.
func Names() []string {
	var names []string
	for _, c := range Clients() {
		names = append(names, c.Name)
	}
	return names
}

// Imports returns the names under which the servers of clients are imported.
func Imports() []string {
	return []string{"claude", "codex", "cursor", "vscode", "gemini", "windsurf", "zed", "opencode", "goose", "copilot"}
}

// Path returns the user's file of the client, into which Toolroom is put, and whether the
// client seems to be installed: the file or its folder exists.
func (c Client) Path(home string) (path string, installed bool) {
	at := func(f string) string { return filepath.Join(home, filepath.FromSlash(f)) }
	files := c.ownFiles()
	for _, f := range files {
		f = at(f)
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
			return f, true
		}
	}
	for _, f := range files {
		f = at(f)
		folder := filepath.Dir(f)
		if info, err := os.Stat(folder); err == nil && info.IsDir() && folder != home {
			return f, true
		}
	}
	return at(fileForSystem(files, runtime.GOOS)), false
}

// ownFiles returns the files into which Toolroom can be put, relative to the user's home folder.
func (c Client) ownFiles() []string {
	var files []string
	for _, f := range c.files {
		if !f.project && !f.foreign {
			files = append(files, f.path)
		}
	}
	return files
}

// fileForSystem returns that of a client's files which a system has. They are relative: the home
// folder itself may be below one of these names.
func fileForSystem(files []string, system string) string {
	folder := map[string]string{"darwin": "Library/", "windows": "AppData/"}[system]
	for _, f := range files {
		if folder != "" && strings.HasPrefix(f, folder) {
			return f
		}
	}
	return files[0]
}

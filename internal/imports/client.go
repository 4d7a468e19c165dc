package imports

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Paths and formats are those in the clients' documentation. The paths of all systems are
// tried on every system.

// claude is Claude Desktop and Claude Code.
func claude() client {
	return client{
		name: "claude",
		files: func(at Place) []file {
			files := []file{
				{filepath.Join(at.Dir, ".mcp.json"), readServers},
				{filepath.Join(at.Home, ".claude.json"), readClaudeCode},
			}
			for _, dir := range appFolders(at.Home) {
				files = append(files, file{filepath.Join(dir, "Claude", "claude_desktop_config.json"), readServers})
			}
			return files
		},
	}
}

// cursor uses the folder names of VS Code, from which it is derived.
func cursor() client {
	return client{
		name: "cursor",
		files: func(at Place) []file {
			return []file{
				{filepath.Join(at.Dir, ".cursor", "mcp.json"), readServers},
				{filepath.Join(at.Home, ".cursor", "mcp.json"), readServers},
			}
		},
		expand: editorFolders,
	}
}

func vscode() client {
	return client{
		name: "vscode",
		files: func(at Place) []file {
			files := []file{{filepath.Join(at.Dir, ".vscode", "mcp.json"), readServers}}
			for _, dir := range appFolders(at.Home) {
				user := filepath.Join(dir, "Code", "User")
				files = append(files,
					file{filepath.Join(user, "mcp.json"), readServers},
					file{filepath.Join(user, "settings.json"), readVSCodeSettings})
			}
			return files
		},
		expand: editorFolders,
	}
}

func gemini() client {
	return client{
		name: "gemini",
		files: func(at Place) []file {
			return []file{
				{filepath.Join(at.Dir, ".gemini", "settings.json"), readGemini},
				{filepath.Join(at.Home, ".gemini", "settings.json"), readGemini},
			}
		},
		bareVariables: true,
	}
}

// appFolders returns the folders of programs' settings on Linux, macOS and Windows.
func appFolders(home string) []string {
	return []string{
		filepath.Join(home, ".config"),
		filepath.Join(home, "Library", "Application Support"),
		filepath.Join(home, "AppData", "Roaming"),
	}
}

func editorFolders(at Place) map[string]string {
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

func readServers(text []byte, _ Place) ([]entry, error) {
	var s servers
	err := decodeJSON(text, &s)
	return s.entries(), err
}

// readClaudeCode reads the servers of the user and those of this project.
func readClaudeCode(text []byte, at Place) ([]entry, error) {
	var f struct {
		servers
		Projects map[string]servers `json:"projects"`
	}
	err := decodeJSON(text, &f)
	return slices.Concat(f.entries(), f.Projects[at.Dir].entries()), err
}

func readVSCodeSettings(text []byte, _ Place) ([]entry, error) {
	var f struct {
		MCP servers `json:"mcp"`
	}
	err := decodeJSON(text, &f)
	return f.MCP.entries(), err
}

// readGemini treats a plain url as the older transport, as Gemini does.
func readGemini(text []byte, at Place) ([]entry, error) {
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
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return server{}, fmt.Errorf("%s is %s, want %s", kindField(kind), kind.Value, kind.Type)
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

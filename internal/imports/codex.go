package imports

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/BurntSushi/toml"
)

func codex() client {
	return client{
		name: "codex",
		files: func(at Place) []file {
			return []file{
				{filepath.Join(at.Dir, ".codex", "config.toml"), readCodex},
				{filepath.Join(at.Home, ".codex", "config.toml"), readCodex},
			}
		},
	}
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

func readCodex(text []byte, _ Place) ([]entry, error) {
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

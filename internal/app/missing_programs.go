package app

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/config"
)

// Missing is a program or document that a source of the config names and this machine does
// not have. It may be installed later, or be on the machine where the config is used.
type Missing struct{ Key, Reason, Hint string }

// FindMissing returns the programs and documents of a config's sources that this machine
// does not have.
func FindMissing(c *config.Config, file string) []Missing {
	var all []Missing
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name]
		if s.Disabled || s.Sandbox != nil && s.Sandbox.Runtime != "" {
			continue
		}
		key := "sources." + name
		program := func(key, command string, env map[string]string) {
			if _, other := env["PATH"]; other || command == "" || strings.Contains(command, "/") {
				return
			}
			if _, err := exec.LookPath(command); errors.Is(err, exec.ErrNotFound) {
				all = append(all, Missing{key, "there is no program " + command + " in the folders of PATH", "check its spelling, install it, or give its full path"})
			}
		}
		switch {
		case s.MCP != nil:
			program(key+".mcp.command", s.MCP.Command, s.MCP.Env)
		case s.CLI != nil:
			program(key+".cli.command", s.CLI.Command, s.CLI.Env)
		case s.OpenAPI != nil && !strings.Contains(s.OpenAPI.Spec, "://"):
			spec := s.OpenAPI.Spec
			if !filepath.IsAbs(spec) {
				spec = filepath.Join(filepath.Dir(file), spec)
			}
			if _, err := os.Stat(spec); errors.Is(err, fs.ErrNotExist) {
				all = append(all, Missing{key + ".openapi.spec", "there is no file " + spec, "check its spelling"})
			}
		}
	}
	return all
}

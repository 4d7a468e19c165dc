package app

import (
	"encoding/json"

	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Subcommand forwards to the source, if it is a command-line program and the config does
// not exclude the tool.
func (s *selected) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	c, ok := source.As[source.Commander](s.Source)
	if !ok || len(s.include) > 0 && !policy.MatchAny(s.include, name) || policy.MatchAny(s.exclude, name) {
		return "", nil, false
	}
	return c.Subcommand(name, arguments)
}

// Subcommand forwards to the source, if it is a command-line program.
func (m *sourceManager) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	if c, ok := source.As[source.Commander](m.src); ok {
		return c.Subcommand(name, arguments)
	}
	return "", nil, false
}

package room

import (
	"encoding/json"

	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Subcommand passes on to a source of a program: what the config leaves out of
// its tools stays out.
func (s *selected) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	c, ok := source.As[source.Commander](s.Source)
	if !ok || len(s.include) > 0 && !policy.MatchAny(s.include, name) || policy.MatchAny(s.exclude, name) {
		return "", nil, false
	}
	return c.Subcommand(name, arguments)
}

// Subcommand asks a source that is a program.
func (h *host) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	if c, ok := source.As[source.Commander](h.src); ok {
		return c.Subcommand(name, arguments)
	}
	return "", nil, false
}

package app

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Subcommand forwards to the source, if it is a command-line program and the config does
// not exclude the tool.
func (s *selected) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	c, ok := source.As[source.Refiner](s.Source)
	if !ok || len(s.include) > 0 && !policy.MatchAny(s.include, name) || policy.MatchAny(s.exclude, name) {
		return "", nil, false
	}
	return c.Subcommand(name, arguments)
}

// Refine forwards to the source.
func (s *selected) Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error) {
	if r, ok := source.As[source.Refiner](s.Source); ok {
		return r.Refine(ctx, id)
	}
	return toolroom.Tool{}, source.ErrNotRefined
}

package mcp

import (
	"context"

	"github.com/toolroom/toolroom"
)

// GoOn is goOn, for tests, of a client that nobody asks.
func (s *Server) GoOn(ctx context.Context, run, approval string) *toolroom.Result {
	return s.goOn(ctx, nil, toolroom.Identity{}, run, approval, &toolroom.Result{})
}

// Guard is guard, for tests.
func (s *Server) Guard(serve func() error) error { return s.guard("tools/call", serve) }

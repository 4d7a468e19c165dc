package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// KeepAlive is keepAlive, for tests.
var KeepAlive = (&Server{}).keepAlive

// GoOn is goOn, for tests, of a client that nobody asks.
func (s *Server) GoOn(ctx context.Context, run, approval string) *toolroom.Result {
	return s.goOn(ctx, nil, toolroom.Identity{}, run, approval, &toolroom.Result{})
}

// Guard is guard, for tests.
func (s *Server) Guard(serve func() (mcp.Result, error)) (mcp.Result, error) {
	return s.guard("tools/call", serve)
}

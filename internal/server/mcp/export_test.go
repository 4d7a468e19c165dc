package mcp

import (
	"context"

	"github.com/toolroom/toolroom"
)

// ContinueProgram calls continueProgram with a client that is never asked.
func (s *Server) ContinueProgram(ctx context.Context, run, approval string) *toolroom.Result {
	return s.continueProgram(ctx, nil, toolroom.Identity{}, run, approval, &toolroom.Result{})
}

// RecoverPanic calls recoverPanic.
func (s *Server) RecoverPanic(serve func() error) error { return s.recoverPanic("tools/call", serve) }

package room

import (
	"context"
	"log/slog"

	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/token"
)

// Parts are what the surfaces of this module serve. Programs that embed a room
// do not need them.
type Parts struct {
	Runner    *run.Runner
	Worker    *run.Worker
	Desk      *approval.Desk
	Artifacts *artifact.Store
	Sessions  *session.Store
	Receipts  receipt.Store
	Recorder  *receipt.Recorder
	Tokens    token.Store
	Secrets   *secret.Store
	Library   *library.Library
	// Log masks known secrets on its way to [Options.Log].
	Log *slog.Logger
}

// Parts gives the parts of an open room.
func (r *Room) Parts() Parts {
	return Parts{
		Runner: r.runner, Worker: r.worker, Desk: r.desk, Artifacts: r.artifacts, Sessions: r.sessions,
		Receipts: r.store, Recorder: r.recorder, Tokens: r.store, Secrets: r.secrets,
		Library: &r.library,
		Log:     r.log,
	}
}

// Config is the config in force.
func (r *Room) Config() *config.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.config
}

// Home is the folder of all state.
func (r *Room) Home() string { return r.home }

// Receipts lists what is kept of calls.
func (r *Room) Receipts(ctx context.Context, q receipt.Query) ([]*receipt.Receipt, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return r.store.Receipts(ctx, q)
}

// Receipt is what is kept of one call.
func (r *Room) Receipt(ctx context.Context, id string) (*receipt.Receipt, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return nil, err
	}
	return r.store.Receipt(ctx, id)
}

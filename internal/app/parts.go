package app

import (
	"context"
	"log/slog"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/internal/token"
)

// Parts are the parts of a room that this module's surfaces use. Programs that embed a room
// do not need them.
type Parts struct {
	Runner    *run.Runner
	Worker    *run.Worker
	Approvals *approval.Service
	Artifacts *artifact.Store
	Sessions  *session.Store
	Receipts  receipt.Store
	Recorder  *receipt.Recorder
	Tokens    *token.Verifier
	Secrets   *secret.Store
	Library   *catalog.Library
	Releases  *release.Service
	// WatchReceipts calls see with the receipt of each call until stop is called.
	WatchReceipts func(see func(*toolroom.Receipt)) (stop func())
	// Resolve returns the value of a secret reference.
	Resolve func(ctx context.Context, reference string) (string, error)
	// Log redacts known secrets and writes to [Options.Log].
	Log *slog.Logger
}

// Parts returns the parts of an open room.
func (a *App) Parts() Parts {
	return Parts{
		Runner: a.runner, Worker: a.worker, Approvals: a.approvals, Artifacts: a.artifacts, Sessions: a.sessions,
		Receipts: a.store, Recorder: a.recorder, Tokens: a.tokens, Secrets: a.secrets,
		Library: &a.library, Releases: a.releases, WatchReceipts: a.receipts.Watch,
		Resolve: a.resolver.Resolve, Log: a.log,
	}
}

// Config returns the current config.
func (a *App) Config() *config.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// Home returns the folder that holds all state.
func (a *App) Home() string { return a.home }

// Receipts lists receipts of calls.
func (a *App) Receipts(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error) {
	if err := a.flushBeforeRead(ctx); err != nil {
		return nil, err
	}
	return a.store.Receipts(ctx, q)
}

// ReceiptSamples calls see with the members that metrics need of each receipt that q
// selects.
func (a *App) ReceiptSamples(ctx context.Context, q toolroom.ReceiptQuery, see func(receipt.Sample) bool) error {
	if err := a.flushBeforeRead(ctx); err != nil {
		return err
	}
	return a.store.ReceiptSamples(ctx, q, see)
}

// Receipt returns the receipt of one call.
func (a *App) Receipt(ctx context.Context, id string) (*toolroom.Receipt, error) {
	if err := a.flushBeforeRead(ctx); err != nil {
		return nil, err
	}
	return a.store.Receipt(ctx, id)
}

// flushBeforeRead waits until the receipts so far can be read. If they cannot be written, for
// example to a full disk, those that were written before can still be read.
func (a *App) flushBeforeRead(ctx context.Context) error {
	err := a.recorder.Flush(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.Warn("the newest receipts are missing in what is read, because they are not written yet", "error", err)
		return nil
	}
	return err
}

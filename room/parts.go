package room

import (
	"context"
	"log/slog"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/token"
)

// Parts are what the surfaces of this module serve. Programs that embed a room
// do not need them.
type Parts struct {
	Runner    *run.Runner
	Worker    *run.Worker
	Desk      *approval.Desk
	Artifacts *artifact.Store
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
		Runner: r.runner, Worker: r.worker, Desk: r.desk, Artifacts: r.artifacts,
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

// Explain says which layer of the policy decides about a tool for somebody, and
// what each layer says.
func (r *Room) Explain(ctx context.Context, spelling string, who toolroom.Identity) (policy.Decision, []policy.Step, error) {
	// A policy can be asked about a tool whose source cannot be listed now.
	_ = r.find(ctx, spelling)
	var tool *toolroom.Tool
	if e, err := r.catalog.Resolve(spelling, nil); err == nil {
		tool = &e.Tool
	} else {
		// A policy may be asked about before the tool is there.
		id, idErr := firstReading(spelling)
		if idErr != nil {
			return policy.Decision{}, nil, err
		}
		tool = &toolroom.Tool{ID: id}
	}
	layers := r.policy.get()
	return r.policy.Decide(tool, who), layers.Explain(tool, who), nil
}

func firstReading(spelling string) (toolroom.ID, error) {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return toolroom.ID{}, err
	}
	for _, id := range readings {
		if id.Namespace != "" {
			return id, nil
		}
	}
	return toolroom.ID{}, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %q", spelling)
}

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

// VerifyReceipts checks the chain of all receipts and says how many there are.
func (r *Room) VerifyReceipts(ctx context.Context) (int64, error) {
	if err := r.recorder.Flush(ctx); err != nil {
		return 0, err
	}
	return r.store.VerifyReceipts(ctx)
}

// Approvals lists the questions in a state; empty means all.
func (r *Room) Approvals(ctx context.Context, state approval.State) ([]*approval.Approval, error) {
	return r.desk.List(ctx, state)
}

// Approval is one question.
func (r *Room) Approval(ctx context.Context, id string) (*approval.Approval, error) {
	return r.desk.Get(ctx, id)
}

// Answer answers a question, once.
func (r *Room) Answer(ctx context.Context, id string, a approval.Answer) (*approval.Approval, error) {
	return r.desk.Answer(ctx, id, a)
}

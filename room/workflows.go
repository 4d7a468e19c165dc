package room

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/config"
)

// Workflows carry programs and chains that must outlive a process: a worker's
// room makes their calls.
type Workflows interface {
	code.Elsewhere
	// Chain runs a chain; emit hears of questions to people.
	Chain(ctx context.Context, as toolroom.Call, steps []Step, emit func(toolroom.Event)) (*ChainResult, error)
	// Work is what a worker does: it makes the calls of workflows in r until ctx
	// ends. ready is told when it has begun.
	Work(ctx context.Context, r *Room, ready func()) error
}

// WorkflowOptions are the settings of workflows. Files are absolute paths.
type WorkflowOptions struct {
	config.Temporal
	// SharedSecret gives what Temporal.Secret refers to.
	SharedSecret func(context.Context) (string, error)
	Log          *slog.Logger
}

// openWorkflows makes the workflows that the config names.
func (r *Room) openWorkflows() {
	c := r.config.Code.Runtimes.Temporal
	if r.o.Workflows == nil || c.Secret == "" {
		return
	}
	c.CA, c.Cert, c.Key = r.folder(c.CA), r.folder(c.Cert), r.folder(c.Key)
	r.workflows = r.o.Workflows(WorkflowOptions{Temporal: c, SharedSecret: r.secretOf(c.Secret), Log: r.log})
}

// Workflows are those of the config.
func (r *Room) Workflows() (Workflows, error) {
	if r.workflows == nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "no Temporal is configured").
			WithHint("write code: {runtimes: {temporal: {address: 127.0.0.1:7233, secret: secret://temporal/key}}}")
	}
	return r.workflows, nil
}

// elsewhere is the runtime that workflows are; nil, not a nil of their type,
// where there are none.
func (r *Room) elsewhere() code.Elsewhere {
	if r.workflows == nil {
		return nil
	}
	return r.workflows
}

// ToolOf is the tool that a call would run, and the most time that it may take.
// The tool is nil where there is none that the caller may see.
func (r *Room) ToolOf(ctx context.Context, call toolroom.Call) (*toolroom.Tool, time.Duration) {
	limits := runLimits(r.Config().Limits)
	longest := cmp.Or(limits.MaxTimeout, 10*time.Minute)
	_ = r.find(ctx, call.Tool) // the call itself says what is wrong
	e, err := r.catalog.Resolve(call.Tool, r.runner.Visible(call.Identity))
	if err != nil {
		return nil, longest
	}
	return &e.Tool, cmp.Or(e.Tool.Timeout, longest)
}

// WaitForAnswer returns when people have decided about an approval, as
// [approval.Desk.Wait] does.
func (r *Room) WaitForAnswer(ctx context.Context, id string) (*approval.Approval, error) {
	return r.desk.Wait(ctx, id)
}

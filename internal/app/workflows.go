package app

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/config"
)

// Workflows run programs and chains that must outlive a process. A worker's room makes
// their calls.
type Workflows interface {
	code.Remote
	// Chain runs a chain. emit receives the events of questions to people.
	Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step, emit func(toolroom.Event)) (*toolroom.ChainResult, error)
}

// Worker is a Workflows that can also run a worker. Only the runner has one.
type Worker interface {
	Workflows
	Work(ctx context.Context, r *App, ready func()) error
}

// WorkflowOptions configure workflows. File paths are absolute.
type WorkflowOptions struct {
	config.Temporal
	// SharedSecret returns the value of the reference Temporal.Secret.
	SharedSecret func(context.Context) (string, error)
	Log          *slog.Logger
}

// openWorkflows creates the workflows that the config asks for.
func (a *App) openWorkflows() {
	c := a.config.Code.Runtimes.Temporal
	if c.Secret == "" {
		return
	}
	c.CA, c.Cert, c.Key = a.resolvePath(c.CA), a.resolvePath(c.Cert), a.resolvePath(c.Key)
	if a.o.Workflows == nil {
		if a.runnerProgram != nil {
			a.workflows = &runnerWorkflows{program: a.runnerProgram, config: c, secret: a.secretFunc(c.Secret)}
		}
		return
	}
	a.workflows = a.o.Workflows(WorkflowOptions{Temporal: c, SharedSecret: a.secretFunc(c.Secret), Log: a.log})
}

// Workflows returns the workflows of the config.
func (a *App) Workflows() (Workflows, error) {
	if a.workflows == nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "Temporal is not configured").
			WithHint("write code: {runtimes: {temporal: {address: 127.0.0.1:7233, secret: secret://temporal/key}}}")
	}
	return a.workflows, nil
}

// remote returns the workflows as a runtime of code mode, or an untyped nil if there are
// none.
func (a *App) remote() code.Remote {
	if a.workflows == nil {
		return nil
	}
	return a.workflows
}

// ToolFor returns the tool that a call would run, and the longest time that it may take.
// The tool is nil if the caller may not see it.
func (a *App) ToolFor(ctx context.Context, call toolroom.Call) (*toolroom.Tool, time.Duration) {
	longest := cmp.Or(a.Config().Limits.MaxTimeout, 10*time.Minute)
	_ = a.find(ctx, call.Tool) // the call itself reports the error
	e, err := a.runner.Lookup(&call)
	if err != nil {
		return nil, longest
	}
	return &e.Tool, cmp.Or(e.Tool.Timeout, longest)
}

// WaitForAnswer waits until people have decided about an approval; see
// [approval.Service.Wait].
func (a *App) WaitForAnswer(ctx context.Context, id string) (*toolroom.Approval, error) {
	return a.approvals.Wait(ctx, id)
}

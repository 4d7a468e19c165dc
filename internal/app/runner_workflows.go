package app

import (
	"context"
	"encoding/json"
	"io"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/sandbox"
)

// The paths of workflows in the runner. Each takes a [WorkflowRequest]. The first answers
// with a [sandbox.Probe], the other with [WorkflowMessage] after WorkflowMessage, of which
// the last has a result or an error. A request that ends early cancels its workflow.
const (
	// The paths of workflows in the runner. Each takes a [WorkflowRequest]. The response to
	// the first is a [sandbox.Probe]. The response to the other is a sequence of
	// [WorkflowMessage], the last of which has a result or an error. Ending a request early
	// cancels its workflow.
	WorkflowName      = "temporal"
	WorkflowProbePath = "/v1/probe"
	WorkflowRunPath   = "/v1/run"
)

// WorkflowRequest asks the runner to run a program, or a chain if Chain is set.
type WorkflowRequest struct {
	Settings TemporalSettings `json:"settings"`
	Call     toolroom.Call    `json:"call"`
	Token    string           `json:"token,omitempty"` // of the identity of Call
	Chain    bool             `json:"chain,omitempty"`
	Steps    []toolroom.Step  `json:"steps,omitempty"`
}

// WorkflowMessage is one event of a workflow, or its end.
type WorkflowMessage struct {
	Event *toolroom.Event `json:"event,omitempty"`
	// Paused reports whether a question to a person is open, so that deadlines are paused.
	Paused  *bool                 `json:"paused,omitempty"`
	Result  *toolroom.Result      `json:"result,omitempty"`
	Chain   *toolroom.ChainResult `json:"chain,omitempty"`
	Error   *toolroom.Error       `json:"error,omitempty"`
	CLIHint string                `json:"cli_hint,omitempty"` // of Error
}

// runnerWorkflows are workflows that the runner executes.
type runnerWorkflows struct {
	program *program.Program
	config  config.Temporal
	secret  func(context.Context) (string, error)
}

// Name returns temporal.
func (w *runnerWorkflows) Name() string { return WorkflowName }

// Close does nothing: the runner ends with the room.
func (w *runnerWorkflows) Close() error { return nil }

func (w *runnerWorkflows) post(ctx context.Context, path string, r WorkflowRequest) (io.ReadCloser, error) {
	secret, err := w.secret(ctx)
	if err != nil {
		return nil, err
	}
	r.Settings = TemporalSettings{w.config, secret}
	return w.program.Post(ctx, "/"+WorkflowName+path, r)
}

// Probe asks the runner whether a worker serves the queue.
func (w *runnerWorkflows) Probe(ctx context.Context) (p sandbox.Probe) {
	answer, err := w.post(ctx, WorkflowProbePath, WorkflowRequest{})
	if err == nil {
		defer answer.Close()
		err = json.NewDecoder(answer).Decode(&p)
	}
	if err != nil {
		e := toolroom.AsError(err)
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: e.Message, Fix: e.Hints()}
	}
	return p
}

// Execute runs a program as a workflow.
func (w *runnerWorkflows) Execute(ctx context.Context, call toolroom.Call, emit func(toolroom.Event)) (*toolroom.Result, error) {
	m, err := w.run(ctx, WorkflowRequest{Call: call, Token: call.Identity.Token}, emit)
	if err != nil {
		return nil, err
	}
	return m.Result, nil
}

// Chain runs a chain as a workflow.
func (w *runnerWorkflows) Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step, emit func(toolroom.Event)) (*toolroom.ChainResult, error) {
	m, err := w.run(ctx, WorkflowRequest{Call: as, Token: as.Identity.Token, Chain: true, Steps: steps}, emit)
	if err != nil {
		return nil, err
	}
	return m.Chain, nil
}

// run sends a request and reads the messages up to the last. It pauses the deadlines of ctx
// while a question to a person is open.
func (w *runnerWorkflows) run(ctx context.Context, r WorkflowRequest, emit func(toolroom.Event)) (*WorkflowMessage, error) {
	answer, err := w.post(ctx, WorkflowRunPath, r)
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	defer answer.Close()
	resume := func() {}
	defer func() { resume() }()
	for messages := json.NewDecoder(answer); ; {
		var m WorkflowMessage
		if err := messages.Decode(&m); err != nil {
			return nil, causeOr(ctx, err)
		}
		switch {
		case m.Event != nil && emit != nil:
			emit(*m.Event)
		case m.Paused != nil:
			resume()
			resume = func() {}
			if *m.Paused {
				resume = deadline.Pause(ctx)
			}
		case m.Error != nil:
			m.Error.CLIHint = m.CLIHint
			return nil, m.Error
		case m.Result != nil || m.Chain != nil:
			return &m, nil
		}
	}
}

// causeOr returns the cause of ctx if it has ended, or else err.
func causeOr(ctx context.Context, err error) error {
	switch toolroom.CodeOf(ctx.Err()) {
	case toolroom.CodeTimeout:
		return toolroom.Errorf(toolroom.CodeTimeout, "the workflow was stopped at its deadline")
	case toolroom.CodeCancelled:
		return toolroom.Errorf(toolroom.CodeCancelled, "the workflow was cancelled")
	}
	if err == io.EOF {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s ended its answer about the workflow early", RunnerName)
	}
	return err
}

package room

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// Run runs one call and always returns a result. If the tool is not known yet, Run first
// lists the sources that may have it.
func (r *Room) Run(ctx context.Context, call toolroom.Call) *toolroom.Result {
	return r.app.Run(ctx, call)
}

// Stream runs one call and yields its events. The last event carries the result. Breaking
// out of the loop cancels the call.
func (r *Room) Stream(ctx context.Context, call toolroom.Call) iter.Seq[toolroom.Event] {
	return r.app.Stream(ctx, call)
}

// Chain runs steps one after the other, as the caller in as.
func (r *Room) Chain(ctx context.Context, as toolroom.Call, steps []toolroom.Step) *toolroom.ChainResult {
	return r.app.Chain(ctx, as, steps)
}

// Batch runs calls in parallel and returns their results in order.
func (r *Room) Batch(ctx context.Context, calls []toolroom.Call, parallel int) []*toolroom.Result {
	return r.app.Batch(ctx, calls, parallel)
}

// Execute runs a program that can call the tools of this room, as the caller in as. The
// error says why the program cannot be a call; everything else is in the result.
func (r *Room) Execute(ctx context.Context, as toolroom.Call, p toolroom.Program) (*toolroom.Result, error) {
	return r.app.Execute(ctx, as, p)
}

// ExecuteCall returns the call that runs a program, for Stream and Submit. If the program
// has no timeout of its own, it has the caller's. Languages may be abbreviated: js, ts, py,
// sh.
func (r *Room) ExecuteCall(as toolroom.Call, p toolroom.Program) (toolroom.Call, error) {
	return r.app.ExecuteCall(as, p)
}

// Engines lists the engines and runtimes that programs can run on, with their status on
// this machine.
func (r *Room) Engines(ctx context.Context) []sandbox.Status { return r.app.Engines(ctx) }

// ReadModule reads a WebAssembly module from a file, for [toolroom.Program], and compresses
// it: modules are often larger than the arguments of a call may be (4 MiB, unless the
// config changes that).
func ReadModule(path string) ([]byte, error) { return app.ReadModule(path) }

// PackModule compresses a WebAssembly module for [toolroom.Program].
func PackModule(module []byte) ([]byte, error) { return app.PackModule(module) }

// Submit accepts a call to run in the background and returns once the call is durable. It
// needs a process with the same home that has called [Room.Start].
func (r *Room) Submit(ctx context.Context, call toolroom.Call) (*toolroom.Job, error) {
	job, err := r.app.Submit(ctx, call)
	if err != nil {
		return nil, err
	}
	return &job.Job, nil
}

// Job returns a submitted or suspended call, or an error with code not_found.
func (r *Room) Job(ctx context.Context, id string) (*toolroom.Job, error) {
	job, err := r.app.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return &job.Job, nil
}

// Jobs lists at most limit submitted and suspended calls of one caller (see
// [toolroom.Identity.Key]; empty means all callers), newest first.
func (r *Room) Jobs(ctx context.Context, owner string, limit int) ([]*toolroom.Job, error) {
	list, err := r.app.Jobs(ctx, owner, limit)
	if err != nil {
		return nil, err
	}
	jobs := make([]*toolroom.Job, len(list))
	for i, j := range list {
		jobs[i] = &j.Job
	}
	return jobs, nil
}

// Resume waits until a job is done, and runs it here if no other process does. sink
// receives its events while it runs here; it may be nil.
func (r *Room) Resume(ctx context.Context, id string, sink func(toolroom.Event)) (*toolroom.Result, error) {
	return r.app.Resume(ctx, id, sink)
}

// CancelJob cancels a job, or asks the process that runs it to.
func (r *Room) CancelJob(ctx context.Context, id string) error { return r.app.CancelJob(ctx, id) }

// Explain decides about a tool for an identity, as policy would about a call, and returns
// the verdict, its rule and the steps of all layers. With arguments, a JSON object, it
// decides about that call and predicts its effects. Without them it ignores rules that
// depend on arguments. It runs nothing.
func (r *Room) Explain(ctx context.Context, tool string, who toolroom.Identity, arguments json.RawMessage) (*Explanation, error) {
	e, err := r.app.Explain(ctx, tool, who, arguments)
	if err != nil {
		return nil, err
	}
	return &Explanation{Verdict: e.Effect, Rule: e.Rule, Hint: e.Hint, Effects: e.Effects, Steps: e.Steps}, nil
}

// Explanation is a decision of the policy.
type Explanation struct {
	Verdict toolroom.Verdict
	// Rule names the rule that decided, as the config writes it.
	Rule string
	// Hint says how to change the outcome, if the verdict is not allow.
	Hint string
	// Effects are the predicted effects of the call.
	Effects []toolroom.Effect
	Steps   []toolroom.PolicyStep
}

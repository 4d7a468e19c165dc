package code

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// Remote is a runtime that passes a whole program to another room. That room runs it as
// its own call: with its policy, its sandboxes and its receipts for the program's calls.
type Remote interface {
	// Name returns the runtime's name.
	Name() string
	// Probe reports whether a room that accepts programs is available.
	Probe(ctx context.Context) sandbox.Probe
	// Execute runs a call of code:execute. Cancelling ctx ends the program. An error is a
	// [*toolroom.Error] with the reason that it could not run. emit receives the events of
	// questions to people.
	Execute(ctx context.Context, call toolroom.Call, emit func(toolroom.Event)) (*toolroom.Result, error)
	Close() error
}

// runRemote runs a program in another room. Below is the runtime that the other room uses.
func (s *Service) runRemote(ctx context.Context, req *source.Request, r *Request, below string) (*source.Output, error) {
	name := s.o.Remote.Name()
	if r.Session != "" {
		return nil, s.noSessionsError(r.Language, []string{name})
	}
	if req.Engine != "" && req.Engine != name {
		return nil, need{engine: req.Engine}.check(name, sandbox.Probe{})
	}
	if req.Isolation != "" {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires isolation %s or stronger, which %s cannot guarantee because its worker chooses", req.Isolation, name).
			WithHint("move the rule to the worker's config, or choose another runtime")
	}
	limits, err := r.limits(s.o.Config)
	if err != nil {
		return nil, err
	}
	there := *r
	there.Runtime = below
	if req.Budget != nil {
		req.Budget.Allow(limits.Calls)
	}
	switch left := int(run.CallsLeft(ctx)); { // the other room does not know the budget of this one
	case left == 0:
		return nil, bridge.OverCalls(0)
	case left < limits.Calls:
		there.MaxCalls = left
	}
	arguments, err := there.Arguments()
	if err != nil {
		return nil, err
	}
	result, err := s.o.Remote.Execute(ctx, toolroom.Call{
		Tool: Tool, Arguments: arguments, Identity: req.Identity, Environment: req.Environment, Parent: req.Call, Surface: "code", MaxOutput: -1,
	}, req.Emit)
	if err != nil {
		return nil, err
	}
	out := &source.Output{Value: result.Value, Content: result.Content, Execution: result.Execution, CPU: result.Usage.CPU, PeakMemory: result.Usage.PeakMemory, Effects: result.Effects}
	if result.Error != nil {
		return out, result.Error
	}
	return out, nil
}

type relayKey struct{}

// Relay makes the calls of a program instead of this room's runner. They pass a runner in
// the room that makes them.
type Relay func(ctx context.Context, call toolroom.Call) *toolroom.Result

// WithRelay returns a context in which relay makes the calls of programs.
func WithRelay(ctx context.Context, relay Relay) context.Context {
	return context.WithValue(ctx, relayKey{}, relay)
}

// makeCall makes the call at place in the journal.
func (h *handler) makeCall(ctx context.Context, place int, call toolroom.Call) *toolroom.Result {
	if relay, ok := ctx.Value(relayKey{}).(Relay); ok {
		return relay(ctx, call)
	}
	return h.o.Runner.RunHooked(ctx, call, h.approvalHooks(ctx, place))
}

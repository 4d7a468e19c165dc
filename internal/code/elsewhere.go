package code

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// Elsewhere is a runtime that hands a whole program to another room, which runs
// it as a call of its own: its policy decides, its sandboxes hold, and its
// receipts tell of the program's calls.
type Elsewhere interface {
	// Name is the runtime's id.
	Name() string
	// Probe says whether a room is there that takes programs.
	Probe(ctx context.Context) sandbox.Probe
	// Execute runs a call of code:execute. Cancelling ctx ends the program. An
	// error is a [*toolroom.Error] for what kept it from running; emit hears of
	// questions to people meanwhile.
	Execute(ctx context.Context, call toolroom.Call, emit func(toolroom.Event)) (*toolroom.Result, error)
	Close() error
}

// elsewhere runs a program in another room, there on the runtime below.
func (s *Service) elsewhere(ctx context.Context, req *source.Request, r *Request, below string) (*source.Output, error) {
	name := s.o.Elsewhere.Name()
	if r.Session != "" {
		return nil, s.stateless(r.Language, []string{name})
	}
	if req.Engine != "" && req.Engine != name {
		return nil, need{engine: req.Engine}.check(name, sandbox.Probe{})
	}
	if req.Isolation != "" {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy lets programs run in %s or stronger, which %s cannot promise: its worker chooses", req.Isolation, name).
			WithHint("put the rule into the worker's config, or choose another runtime")
	}
	if _, err := r.limits(s.o.Config); err != nil {
		return nil, err
	}
	there := *r
	there.Runtime = below
	arguments, err := there.Arguments()
	if err != nil {
		return nil, err
	}
	result, err := s.o.Elsewhere.Execute(ctx, toolroom.Call{
		Tool: Tool, Arguments: arguments, Identity: req.Identity, Parent: req.Call, Surface: "code", MaxOutput: -1,
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

// Relay makes the calls of a program in place of the runner of this room. They
// pass a runner where they are made.
type Relay func(ctx context.Context, call toolroom.Call) *toolroom.Result

// WithRelay gives the calls of programs that run with ctx to relay.
func WithRelay(ctx context.Context, relay Relay) context.Context {
	return context.WithValue(ctx, relayKey{}, relay)
}

// run makes the call at a place of the journal.
func (h *host) run(ctx context.Context, place int, call toolroom.Call) *toolroom.Result {
	if relay, ok := ctx.Value(relayKey{}).(Relay); ok {
		return relay(ctx, call)
	}
	return h.o.Runner.RunWaiting(ctx, call, h.waits(ctx, place))
}

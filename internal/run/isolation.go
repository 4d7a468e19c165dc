package run

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Judge asks the policy about a call. Where a rule looks at what the call would
// run in, and another one then asks for more, the policy is asked once more: of
// the walls that the call will have. behind is their strength, empty where no
// rule looks.
func (r *Runner) Judge(ctx context.Context, e *catalog.Entry, asked policy.Request, req source.Request) (d policy.Decision, behind policy.Isolation) {
	isolator, isolates := source.As[source.Isolator](e.Source)
	req.Tool = e.Tool.ID
	call := *asked.Call
	call.Isolation = func() policy.Isolation {
		switch {
		case behind != "":
		case isolates:
			behind = policy.Walls(isolator.Isolation(ctx, &req)).Strength()
		default:
			behind = policy.IsolationNone
		}
		return behind
	}
	asked.Call = &call
	d = r.Policy.Decide(ctx, asked)
	if isolates && behind != "" && !behind.Holds(d.Isolation) {
		req.Isolation, behind = string(d.Isolation), ""
		d = r.Policy.Decide(ctx, asked)
	}
	return d, behind
}

// Isolates reports whether the source of a tool holds its calls to the isolation
// that policy asks for.
func Isolates(e *catalog.Entry) bool {
	_, ok := source.As[source.Isolator](e.Source)
	return ok
}

// judge is Judge for this call.
func (p *pass) judge() policy.Decision {
	d, behind := p.Judge(p.ctx, p.entry,
		policy.Request{Tool: &p.entry.Tool, Who: p.call.Identity, Call: p.policyContext()},
		source.Request{Call: p.call.ID, Arguments: p.call.Arguments, Identity: p.call.Identity})
	p.least = d.Isolation
	if behind != policy.IsolationNone && !p.least.Holds(behind) {
		p.least = behind // a rule has relied on it
	}
	return d
}

// unwalled is the error of a call that policy lets run only in a sandbox, of a
// tool that runs in none.
func (p *pass) unwalled() error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s may only run in %s or stronger, and it would run in %s", p.tool, p.decision.Isolation, policy.IsolationNone)
	e.Details = map[string]any{"isolation": p.decision.Isolation}
	return e.WithHint("see which rule asks for it: toolroom policy explain %s", p.tool)
}

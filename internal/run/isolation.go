package run

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Judge asks the policy about a call; the Isolation of asked.Call is Judge's to
// set. behind is the strength of the walls that a rule has relied on, empty or
// none where there are no walls or no rule looks at them.
func (r *Runner) Judge(ctx context.Context, e *catalog.Entry, asked policy.Request, req source.Request) (d policy.Decision, behind policy.Isolation) {
	isolator, isolates := source.As[source.Isolator](e.Source)
	if isolates {
		req.Tool = e.Tool.ID
		return r.judgeWalls(ctx, asked, isolator, req)
	}
	asked.Call.Isolation = func() policy.Isolation { return policy.IsolationNone }
	return r.Policy.Decide(ctx, asked), policy.IsolationNone
}

// judgeWalls asks the policy about a call of a tool that has walls. Where a rule
// looks at them, and another one then asks for more, the policy is asked once
// more: of the walls that the call will have.
func (r *Runner) judgeWalls(ctx context.Context, asked policy.Request, isolator source.Isolator, req source.Request) (d policy.Decision, behind policy.Isolation) {
	asked.Call.Isolation = func() policy.Isolation {
		if behind == "" {
			behind = policy.Walls(isolator.Isolation(ctx, &req)).Strength()
		}
		return behind
	}
	d = r.Policy.Decide(ctx, asked)
	if behind != "" && (d.Engine != "" || !behind.Holds(d.Isolation)) {
		req.Isolation, req.Engine, behind = string(d.Isolation), d.Engine, ""
		d = r.Policy.Decide(ctx, asked)
		d.Engine = cmp.Or(d.Engine, req.Engine)
	}
	return d, behind
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

// Unwalled reports whether a tool cannot run as a decision lets it: it runs in no
// sandbox, and on no engine.
func Unwalled(e *catalog.Entry, d policy.Decision) bool {
	_, isolates := source.As[source.Isolator](e.Source)
	return !isolates && (d.Engine != "" || !policy.IsolationNone.Holds(d.Isolation))
}

// unwalled is the error of such a call.
func (p *pass) unwalled() error {
	var only []string
	if p.decision.Isolation != "" {
		only = append(only, fmt.Sprintf("in %s or stronger", p.decision.Isolation))
	}
	if p.decision.Engine != "" {
		only = append(only, "on "+p.decision.Engine)
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s may only run %s, and it would run in none", p.tool, strings.Join(only, ", "))
	e.Details = map[string]any{"isolation": p.decision.Isolation, "engine": p.decision.Engine}
	return e.WithHint("see which rule asks for it: toolroom policy explain %s", p.tool)
}

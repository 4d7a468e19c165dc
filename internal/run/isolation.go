package run

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Judge asks the policy about a call. It sets asked.Call.Enforced and asked.Call.Isolation
// itself. reliedOn is the isolation that a rule has read, and so relied on; it is empty or none
// if the tool has no isolation or no rule reads it.
func (r *Runner) Judge(ctx context.Context, e *catalog.Entry, asked policy.Request, req source.Request) (d policy.Decision, reliedOn toolroom.Isolation) {
	req.Tool = e.Tool.ID
	asked.Call.Enforced = Enforced(e, req, asked.Call.Effects)
	sandboxed, isolates := source.As[source.Sandboxed](e.Source)
	if isolates {
		return r.judgeIsolated(ctx, asked, sandboxed, req)
	}
	asked.Call.Isolation = func() toolroom.Isolation { return toolroom.IsolationNone }
	return r.Policy.Decide(ctx, asked), toolroom.IsolationNone
}

// JudgeArguments is Judge for a surface, which has arguments but no request of a source.
func (r *Runner) JudgeArguments(ctx context.Context, e *catalog.Entry, asked policy.Request, arguments json.RawMessage) policy.Decision {
	d, _ := r.Judge(ctx, e, asked, source.Request{Arguments: arguments, Identity: asked.Who})
	return d
}

// Enforced returns a function that reports whether the source of a tool enforces a rule about
// effects on a call. It returns nil if the source enforces no rules.
func Enforced(e *catalog.Entry, req source.Request, predicted []toolroom.Effect) func(rule toolroom.Effect) bool {
	predictor, ok := source.As[source.Predictor](e.Source)
	if !ok {
		return nil
	}
	return func(rule toolroom.Effect) bool { return predictor.Enforces(&req, rule, predicted) }
}

// judgeIsolated asks the policy about a call of an isolated tool. If one rule
// reads the isolation and another one then requires more, judgeIsolated asks the
// policy again, with the isolation that the call will have.
func (r *Runner) judgeIsolated(ctx context.Context, asked policy.Request, sandboxed source.Sandboxed, req source.Request) (d policy.Decision, reliedOn toolroom.Isolation) {
	asked.Call.Isolation = func() toolroom.Isolation {
		if reliedOn == "" {
			reliedOn = policy.Strength(policy.IsolationOf(sandboxed.Isolation(ctx, &req)))
		}
		return reliedOn
	}
	d = r.Policy.Decide(ctx, asked)
	if reliedOn != "" && (d.Engine != "" || !policy.AtLeast(reliedOn, d.Isolation)) {
		req.Isolation, req.Engine, reliedOn = string(d.Isolation), d.Engine, ""
		d = r.Policy.Decide(ctx, asked)
		d.Engine = cmp.Or(d.Engine, req.Engine)
	}
	return d, reliedOn
}

// NeedsSandbox reports whether a decision requires isolation or an engine for a tool that has
// neither.
func NeedsSandbox(e *catalog.Entry, d policy.Decision) bool {
	if d.Engine == "" && policy.AtLeast(toolroom.IsolationNone, d.Isolation) {
		return false
	}
	_, isolates := source.As[source.Sandboxed](e.Source)
	return !isolates
}

// sandboxError returns the error of a call for which [NeedsSandbox] is true.
func (c *decidedCall) sandboxError() error {
	var only []string
	if c.decision.Isolation != "" {
		only = append(only, fmt.Sprintf("in %s or stronger", c.decision.Isolation))
	}
	if c.decision.Engine != "" {
		only = append(only, "on "+c.decision.Engine)
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s may only run %s, but it runs in no sandbox", c.tool, strings.Join(only, ", "))
	e.Details = map[string]any{"isolation": c.decision.Isolation, "engine": c.decision.Engine}
	return e.WithCLIHint("see which rule requires it: toolroom policy explain %s", c.tool)
}

package run

import (
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// decide asks the policy, and makes its decision stricter if the call would leak private
// data or spend too much. The error says why the call may not be made.
func (c *resolved) decide() (*decided, error) {
	d := &decided{resolved: c}
	if err := c.recallTaint(); err != nil {
		return d, toolroom.Errorf(toolroom.CodeInternal, "failed to read the taint labels of this session: %w", err)
	}
	d.effects = c.expect(c.request.Arguments)
	d.judge()
	d.guardTaint()
	d.guardConfirm()
	if err := d.afford(); err != nil {
		return d, err
	}
	if d.decision.Log {
		c.runner.Log.Info("call", "id", c.request.ID, "tool", c.tool, "identity", c.request.Identity.String(), "surface", c.request.Surface, "effect", string(d.decision.Effect), "rule", d.decision.Rule)
	}
	switch {
	case d.decision.Effect == toolroom.VerdictDeny:
		return d, d.denied()
	case NeedsSandbox(c.entry, d.decision):
		return d, d.needsSandbox()
	default:
		return d, c.checkScopes()
	}
}

// judge asks the policy about the call, and notes in which isolation it may run.
func (c *decided) judge() {
	decision, behind := c.runner.Judge(c.ctx, c.entry,
		policy.Request{Tool: &c.entry.Tool, Who: c.request.Identity, Call: c.policyContext()},
		source.Request{Call: c.request.ID, Arguments: c.request.Arguments, Identity: c.request.Identity, Session: c.request.Session})
	c.decision, c.isolation = decision, decision.Isolation
	if behind != toolroom.IsolationNone && !policy.Holds(c.isolation, behind) {
		c.isolation = behind // a rule has relied on it
	}
}

// guardConfirm asks a person about a tool that wants it, whatever policy allows.
func (c *decided) guardConfirm() {
	if why := c.entry.Tool.Confirm; why != "" && c.decision.Effect == toolroom.VerdictAllow {
		c.decision.Effect, c.decision.Rule = toolroom.VerdictConfirm, why
	}
}

// policyContext returns what policy rules may see of the call.
func (c *decided) policyContext() *policy.Context {
	calls, bytes := c.scope.budget.Left()
	return &policy.Context{
		Arguments: c.decodedArguments,
		Surface:   c.request.Surface,
		Session:   c.request.Session,
		Time:      c.started,
		Depth:     c.scope.depth,
		Effects:   c.effects,
		Secrets:   c.trust().Secrets,
		Taint:     taint.Names(c.scope.labels.Labels()),
		Budget:    policy.Budget{Calls: calls, Bytes: bytes},
	}
}

func (c *decided) denied() error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s%s", c.request.Identity, c.tool, c.decision.Rule, c.because())
	e.Details = map[string]any{"rule": c.decision.Rule}
	if c.leaks {
		e.Details["reach"] = c.taint
	}
	e.Hint, e.CLIHint = c.decision.Hint, c.decision.CLIHint
	return e
}

// checkScopes returns an error if the caller's token lacks a scope that the tool needs.
func (c *resolved) checkScopes() error {
	have := c.request.Identity.Scopes
	if c.runner.Scopes == nil || have == nil {
		return nil
	}
	for _, scope := range c.runner.Scopes(&c.entry.Tool) {
		if !slices.Contains(have, scope) {
			e := toolroom.Errorf(toolroom.CodeDenied, "the token of %s lacks the scope %s, which %s needs", c.request.Identity, scope, c.tool)
			e.Details = map[string]any{"scope": scope}
			return e.WithHint("log in again and ask for the scope %s", scope)
		}
	}
	return nil
}

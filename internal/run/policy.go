package run

import (
	"context"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

// decide asks the policy, and makes its decision stricter if the call would leak private
// data or spend too much. The error says why the call may not be made.
func (c *resolvedCall) decide() (*decidedCall, error) {
	d := &decidedCall{resolvedCall: c}
	if err := c.checkToken(); err != nil {
		return d, err
	}
	if err := c.loadTaint(); err != nil {
		return d, toolroom.Errorf(toolroom.CodeInternal, "failed to read the taint labels of this session: %w", err)
	}
	d.effects = c.predictEffects(c.request.Arguments)
	d.judge()
	d.applyTaintRule()
	d.applyToolConfirm()
	if err := d.applySpendingLimit(); err != nil {
		return d, err
	}
	if d.decision.Log {
		c.runner.Log.Info("call", "id", c.request.ID, "tool", c.tool, "identity", c.request.Identity.String(), "surface", c.request.Surface, "effect", string(d.decision.Effect), "rule", d.decision.Rule)
	}
	switch {
	case d.decision.Effect == toolroom.VerdictDeny:
		return d, d.denialError()
	case NeedsSandbox(c.entry, d.decision):
		return d, d.sandboxError()
	default:
		return d, c.checkScopes()
	}
}

// mayBeAllowed reports whether policy allows the caller some calls of the tool.
func (c *resolvedCall) mayBeAllowed() bool {
	return c.runner.Allowed(c.request.Identity, c.entry)
}

// CheckToken returns an error if the caller has a token (see [toolroom.Identity]) that was
// revoked or has expired.
func (r *Runner) CheckToken(ctx context.Context, who toolroom.Identity) error {
	if who.Token == "" || r.Tokens == nil {
		return nil
	}
	return r.Tokens.Check(ctx, who.Token)
}

// checkToken is [Runner.CheckToken] for the caller of this call. It is called before policy
// decides, after the call has waited for an answer, and before each attempt of its tool.
func (c *call) checkToken() error { return c.runner.CheckToken(c.ctx, c.request.Identity) }

// judge asks the policy about the call, and sets the isolation in which it may run.
func (c *decidedCall) judge() {
	decision, reliedOn := c.runner.Judge(c.ctx, c.entry,
		policy.Request{Tool: &c.entry.Tool, Who: c.request.Identity, Call: c.policyContext()},
		source.Request{Call: c.request.ID, Arguments: c.request.Arguments, Identity: c.request.Identity, Session: c.request.Session})
	c.decision, c.isolation = decision, decision.Isolation
	if reliedOn != toolroom.IsolationNone && !policy.AtLeast(c.isolation, reliedOn) {
		c.isolation = reliedOn // the tool must not run in a weaker one
	}
}

// applyToolConfirm requires an approval if the tool asks for one, even if policy allows the
// call.
func (c *decidedCall) applyToolConfirm() {
	if why := c.entry.Tool.Confirm; why != "" && c.decision.Effect == toolroom.VerdictAllow {
		c.decision.Effect, c.decision.Rule = toolroom.VerdictConfirm, why
	}
}

// policyContext returns what policy rules may see of the call.
func (c *decidedCall) policyContext() *policy.Context {
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

// denialError returns the error of a call that the policy denies.
func (c *decidedCall) denialError() error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s%s", c.request.Identity, c.tool, c.decision.Rule, c.because())
	e.Details = map[string]any{"rule": c.decision.Rule}
	if c.leaks {
		e.Details["reach"] = c.taint
	}
	e.Hint, e.CLIHint = c.decision.Hint, c.decision.CLIHint
	return e
}

// checkScopes returns an error if the caller's token lacks a scope that the tool requires.
func (c *resolvedCall) checkScopes() error {
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

package run

import (
	"context"

	"github.com/toolroom/toolroom"
)

// applySpendingLimit makes the decision stricter if the call would spend more than policy
// allows.
func (c *decidedCall) applySpendingLimit() error {
	ledger := c.runner.Spending
	if ledger == nil {
		return nil
	}
	step, ok, err := ledger.Judge(c.ctx, c.tool, c.request.Identity.Key(), c.effects, c.runner.Now())
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "failed to read the recorded spending: %w", err)
	}
	if !ok {
		return nil
	}
	c.costly = step.Effect != toolroom.VerdictAllow
	before := c.decision
	c.decision = before.WithStep(step)
	if c.costly && before.Effect == toolroom.VerdictConfirm && step.Effect == toolroom.VerdictConfirm {
		c.decision.Rule += "; and " + before.Rule
	}
	return nil
}

// spend records the amounts that the call is about to spend.
func (c *approvedCall) spend() (*clearedCall, error) {
	ledger := c.runner.Spending
	if ledger == nil {
		return &clearedCall{approvedCall: c}, nil
	}
	err := ledger.Reserve(c.ctx, c.request.ID, c.tool, c.request.Identity.Key(), c.effects, c.runner.Now())
	return &clearedCall{approvedCall: c, spent: err == nil}, err
}

// refund returns the recorded amounts of a call that did not reach its tool. The amounts of
// other failed calls stay recorded, because it is not known whether they were spent; the tool's
// own report does not count.
func (o *outcome) refund() {
	if o.at.cleared == nil || !o.at.cleared.spent || o.sent() {
		return
	}
	if err := o.runner.Spending.Refund(context.WithoutCancel(o.ctx), o.request.ID, o.at.cleared.effects); err != nil {
		o.runner.Log.Error("failed to return the amounts of a call that did not reach its tool", "call", o.request.ID, "error", err)
	}
}

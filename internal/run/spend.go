package run

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// afford narrows the decision where the call would spend too much.
func (p *pass) afford() error {
	if p.Spending == nil {
		return nil
	}
	step, ok, err := p.Spending.Judge(p.ctx, p.tool, p.call.Identity.Key(), p.expected, p.Now())
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "how much has been spent is not known: %w", err)
	}
	if !ok {
		return nil
	}
	p.costly = step.Effect != policy.Allow
	asked := p.decision
	p.decision = p.decision.Then(step)
	if p.costly && asked.Effect == policy.Confirm && step.Effect == policy.Confirm {
		p.decision.Rule += "; and " + asked.Rule
	}
	return nil
}

// spend writes down what the call is about to spend.
func (p *pass) spend() error {
	if p.Spending == nil {
		return nil
	}
	err := p.Spending.Take(p.ctx, p.call.ID, p.tool, p.call.Identity.Key(), p.expected, p.Now())
	p.spent = err == nil
	return err
}

// refund takes back what the call did not spend, for it has not reached its tool.
// Otherwise what it was to spend stays spent when it fails: whether money has
// flowed is not known then, and the word of the tool does not count.
func (p *pass) refund() {
	if !p.spent || p.sent {
		return
	}
	if err := p.Spending.Return(context.WithoutCancel(p.ctx), p.call.ID, p.expected); err != nil {
		p.Log.Error("what a call did not spend counts as spent", "call", p.call.ID, "error", err)
	}
}

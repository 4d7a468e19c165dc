package run

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/taint"
)

// Trust is how far a tool is trusted.
type Trust struct {
	// Labels are on its results.
	Labels []string
	// Sends says that a call can send something outside.
	Sends bool
	// Effect is what becomes of a call that sends while untrusted content and
	// private data are in reach: Confirm or Deny. Empty lets it pass, and then
	// sessions are not remembered.
	Effect policy.Effect
}

func (p *pass) trust() Trust {
	if p.Trust == nil {
		return Trust{}
	}
	return p.Trust(&p.entry.Tool)
}

type reachKey struct{}

// WithReach makes the calls run with ctx share what they have read, as the steps
// of one chain do: what one returned may be in the arguments of the next.
func WithReach(ctx context.Context) context.Context {
	if _, shared := ctx.Value(reachKey{}).(*taint.Reach); shared {
		return ctx
	}
	return context.WithValue(ctx, reachKey{}, &taint.Reach{})
}

// reachOf is what a call shares with the calls around it.
func reachOf(ctx context.Context, parent *pass) *taint.Reach {
	if parent != nil {
		return parent.reach
	}
	if shared, ok := ctx.Value(reachKey{}).(*taint.Reach); ok {
		return shared
	}
	return &taint.Reach{}
}

// guard narrows the decision where the call would send what it must not.
func (p *pass) guard() error {
	trust := p.trust()
	defer func() { p.inReach = p.recordedReach() }()
	if trust.Effect != policy.Confirm && trust.Effect != policy.Deny {
		return nil
	}
	if err := p.recall(); err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "what this session has read is not known: %w", err)
	}
	if !trust.Sends {
		return nil
	}
	why := taint.Judge(p.reach.Marks(), p.tool)
	if why == "" {
		return nil
	}
	rule := "policy.taint: " + why
	if p.decision.Effect == policy.Confirm {
		rule += "; and " + p.decision.Rule
	}
	p.decision.Effect, p.decision.Rule = trust.Effect, rule
	if trust.Effect == policy.Confirm {
		return nil
	}
	e := toolroom.Errorf(toolroom.CodeDenied, "%s may not call %s: %s", p.call.Identity, p.tool, rule)
	e.Details = map[string]any{"rule": rule, "reach": p.recordedReach()}
	return e.WithHint("do it in a session that has not read both, or have a person set policy.taint to confirm")
}

// session names what is remembered for later calls, and is false for calls that
// stand alone: who gives no session is known by the surface that serves clients.
func (p *pass) session() (owner, session string, ok bool) {
	root := p
	for root.parent != nil {
		root = root.parent
	}
	session = root.call.Session
	ok = session != "" || root.call.Surface == "mcp" || root.call.Surface == "http"
	return root.call.Identity.Key(), session, ok && p.Taints != nil
}

// recall brings in reach what the session has read before.
func (p *pass) recall() error {
	owner, session, ok := p.session()
	if !ok {
		return nil
	}
	since := p.Now().Add(-taint.Window)
	if session != "" {
		since = since.AddDate(-100, 0, 0) // as long as the session is known
	}
	marks, err := p.Taints.Taints(p.ctx, owner, session, since)
	p.reach.Add(marks...)
	return err
}

// spread labels the result, and puts its labels in reach of what follows.
func (p *pass) spread() {
	if p.entry == nil || p.ran.IsZero() && p.replayed == nil {
		return // nothing was read
	}
	trust := p.trust()
	own := marksOf(append(append([]string(nil), trust.Labels...), p.result.Labels...), p.tool)
	all := append(own, p.derived.Marks()...)
	if len(all) == 0 {
		return
	}
	p.result.Labels = taint.Labels(all)
	p.reach.Add(all...)
	if p.parent != nil {
		p.parent.derived.Add(all...)
	}
	owner, session, ok := p.session()
	if !ok || len(own) == 0 || trust.Effect == "" {
		return
	}
	if err := p.Taints.AddTaints(context.WithoutCancel(p.ctx), owner, session, own, p.Now()); err != nil {
		p.Log.Error("what a session has read was not kept", "call", p.call.ID, "error", err)
	}
}

func marksOf(labels []string, tool string) []taint.Mark {
	var marks []taint.Mark
	for _, label := range labels {
		marks = append(marks, taint.Mark{Label: label, Tool: tool})
	}
	return taint.Sorted(marks)
}

// recordedReach is what receipts say was in reach of the call.
func (p *pass) recordedReach() []string {
	var out []string
	for _, m := range p.reach.Marks() {
		out = append(out, m.String())
	}
	return out
}

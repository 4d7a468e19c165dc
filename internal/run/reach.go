package run

import (
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/taint"
)

// Trust is how far a tool is trusted.
type Trust struct {
	// Labels are on its results.
	Labels []string
	// Secrets are the scopes of the secrets that it is given.
	Secrets []string
	// Inside says that a call sends nothing outside, whatever its effects.
	Inside bool
	// Sends says that a call can send something outside where the tool does not
	// declare its effects.
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

// around is what this call shares with the calls around it.
func (p *pass) around() *taint.Reach {
	if p.parent != nil {
		return p.parent.reach
	}
	if shared, ok := p.ctx.Value(reachKey{}).(*taint.Reach); ok {
		return shared
	}
	return &p.own
}

// guarded narrows a decision where the call would send what it must not.
func (p *pass) guarded(d policy.Decision) policy.Decision {
	p.inReach = p.recordedReach()
	trust := p.trust()
	if d.Effect == policy.Deny || trust.Effect != policy.Confirm && trust.Effect != policy.Deny || !p.sends(trust) {
		return d
	}
	why := taint.Judge(p.reach.Marks(), p.tool)
	if why == "" {
		return d
	}
	p.leaks = true
	step := policy.Step{
		Layer: "policy.taint", Effect: trust.Effect, Rule: "policy.taint: " + why,
		Hint: "do it in a session that has not read both, or have a person set policy.taint to confirm",
	}
	asked := d
	d = d.Then(step)
	if asked.Effect == policy.Confirm {
		d.Rule += "; and " + asked.Rule
	}
	return d
}

// sends reports whether the call can send something outside. What a tool that
// declares nothing would do is not fully known: then its hints count too.
func (p *pass) sends(trust Trust) bool {
	if trust.Inside {
		return false
	}
	return len(p.entry.Tool.Effects) == 0 && trust.Sends ||
		slices.ContainsFunc(p.expected, func(e toolroom.Effect) bool { return e.Kind == toolroom.EffectSend })
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

// recall brings in reach what the session has read before, where a rule is about
// that.
func (p *pass) recall() error {
	owner, session, ok := p.session()
	if !ok || p.trust().Effect == "" {
		return nil
	}
	keep := taint.Window
	if session != "" {
		keep = taint.Keep
	}
	now := p.Now()
	marks, err := p.Taints.Taints(p.ctx, owner, session, now.Add(-keep))
	p.reach.Add(marks...)
	if err != nil || session == "" || len(marks) == 0 {
		return err
	}
	// A session that is used forgets nothing. To note it once a day is enough.
	fresh, err := p.Taints.Taints(p.ctx, owner, session, now.Add(-24*time.Hour))
	if err == nil && len(fresh) < len(marks) {
		err = p.Taints.AddTaints(p.ctx, owner, session, marks, now)
	}
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

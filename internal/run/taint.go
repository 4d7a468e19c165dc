package run

import (
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/taint"
)

// Trust is how far a tool is trusted.
type Trust struct {
	// Labels are the taint labels of its results.
	Labels []string
	// Secrets are the scopes of the secrets that it receives.
	Secrets []string
	// Inside reports that a call sends nothing outside, whatever its effects.
	Inside bool
	// Sends reports that a call can send something outside if the tool declares no
	// effects.
	Sends bool
	// Effect is the decision about a call that sends and that is tainted by both
	// untrusted content and private data: Confirm or Deny. Empty allows the call,
	// and then no labels of sessions are stored.
	Effect toolroom.Verdict
}

func (c *resolvedCall) trust() Trust {
	if c.runner.Trust == nil {
		return Trust{}
	}
	return c.runner.Trust(&c.entry.Tool)
}

// applyTaintRule makes the decision stricter if the call would send private data after
// untrusted content was read.
func (c *decidedCall) applyTaintRule() {
	c.taint = c.recordedTaint()
	trust := c.trust()
	if c.decision.Effect == toolroom.VerdictDeny || trust.Effect != toolroom.VerdictConfirm && trust.Effect != toolroom.VerdictDeny || !c.canSend(trust) {
		return
	}
	why := taint.SendRisk(c.scope.labels.Labels(), c.tool)
	if why == "" {
		return
	}
	c.leaks = true
	before := c.decision
	c.decision = before.WithStep(toolroom.PolicyStep{
		Layer: "policy.taint", Effect: trust.Effect, Rule: "policy.taint: " + why,
		Hint: "use a session that has not read both, or ask a person to set policy.taint to confirm",
	})
	if before.Effect == toolroom.VerdictConfirm {
		c.decision.Rule += "; and " + before.Rule
	}
}

// canSend reports whether the call can send something outside. The effects of a
// tool that declares none are not fully known: then its hints count too.
func (c *decidedCall) canSend(trust Trust) bool {
	if trust.Inside {
		return false
	}
	return len(c.entry.Tool.Effects) == 0 && trust.Sends ||
		slices.ContainsFunc(c.effects, func(e toolroom.Effect) bool { return e.Kind == toolroom.EffectSend })
}

// TaintOf returns the taint labels of the call that ctx belongs to. Data that the call stores
// must get them.
func TaintOf(ctx context.Context) []taint.Label {
	s := scopeOf(ctx)
	if s.tally == nil {
		return nil
	}
	var all taint.Set
	all.Add(s.labels.Labels()...)
	all.Add(s.tally.labels.Labels()...)
	if s.runner.Trust != nil {
		all.Add(taint.LabelsOf(s.runner.Trust(&s.entry.Tool).Labels, s.tool)...)
	}
	return all.Labels()
}

// AddTaint adds the labels of stored data, such as an artifact, to the call that ctx belongs to,
// because the call reads the data. It reports whether ctx belongs to a call.
func AddTaint(ctx context.Context, labels ...taint.Label) bool {
	s := scopeOf(ctx)
	if s.tally == nil {
		return false
	}
	s.labels.Add(labels...)
	s.tally.stored.Add(labels...)
	return true
}

// TaintSession stores the labels of data that a caller reads outside any call, such as the rest
// of a truncated result. They taint the session that [taint.WithSession] names.
func (r *Runner) TaintSession(ctx context.Context, owner string, labels []taint.Label) error {
	if r.Taints == nil || len(labels) == 0 {
		return nil
	}
	return r.Taints.AddTaints(context.WithoutCancel(ctx), owner, taint.SessionFrom(ctx), labels, r.Now())
}

// taintSession returns the owner and session under which labels are stored for later calls. ok
// is false if they are not stored: a call without a session stands alone, except on the
// surfaces that serve clients.
func (c *call) taintSession() (owner, session string, ok bool) {
	session = c.request.Session
	ok = session != "" || c.scope.surface == "mcp" || c.scope.surface == "http"
	return c.request.Identity.Key(), session, ok && c.runner.Taints != nil
}

// loadTaint adds the stored labels of the session to the call, if a rule depends on them.
func (c *resolvedCall) loadTaint() error {
	owner, session, ok := c.taintSession()
	if !ok || c.trust().Effect == "" {
		return nil
	}
	keep := taint.Window
	if session != "" {
		keep = taint.Retention
	}
	store, now := c.runner.Taints, c.runner.Now()
	labels, err := store.Taints(c.ctx, owner, session, now.Add(-keep))
	c.scope.labels.Add(labels...)
	if err != nil || session == "" || len(labels) == 0 {
		return err
	}
	// Each use renews the labels of a session. Storing that once a day is enough.
	fresh, err := store.Taints(c.ctx, owner, session, now.Add(-24*time.Hour))
	if err == nil && len(fresh) < len(labels) {
		err = store.AddTaints(c.ctx, owner, session, labels, now)
	}
	return err
}

// propagateTaint puts labels on the result and taints the calls that follow.
func (o *outcome) propagateTaint() {
	if o.at.resolved == nil || o.at.executed == nil && o.replayed == nil {
		return // nothing was read
	}
	trust := o.at.resolved.trust()
	read := taint.LabelsOf(append(append([]string(nil), trust.Labels...), o.result.Labels...), o.tool)
	read = append(read, o.tally.stored.Labels()...)
	all := append(read[:len(read):len(read)], o.tally.labels.Labels()...)
	if len(all) == 0 {
		return
	}
	o.result.Labels = taint.Names(all)
	o.scope.labels.Add(all...)
	if o.parent != nil {
		o.parent.tally.labels.Add(all...)
	}
	owner, session, ok := o.taintSession()
	if !ok || len(read) == 0 || trust.Effect == "" {
		return
	}
	if err := o.runner.Taints.AddTaints(context.WithoutCancel(o.ctx), owner, session, read, o.runner.Now()); err != nil {
		o.runner.Log.Error("failed to store the taint labels of a session", "call", o.request.ID, "error", err)
	}
}

// recordedTaint returns the labels of the call as receipts show them.
func (c *call) recordedTaint() []string {
	var out []string
	for _, l := range c.scope.labels.Labels() {
		out = append(out, l.String())
	}
	return out
}

package policy

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// RecordedCall is a call from its receipt.
type RecordedCall struct {
	ID       string
	Tool     string
	Identity toolroom.Identity
	Surface  string
	Session  string
	Started  time.Time
	// Arguments are those in the receipt, without sensitive values. They are nil if they were
	// not kept.
	Arguments json.RawMessage
	// Effects are the effects that were predicted.
	Effects []toolroom.Effect
	// Was is the decision at the time of the call, Rule the rule that decided, and Layers the
	// steps.
	Was    toolroom.Verdict
	Rule   string
	Layers []toolroom.PolicyStep
}

// ReplayChange is a call on which the decision would be different now.
type ReplayChange struct {
	Call     string            `json:"call"`
	Tool     string            `json:"tool"`
	Identity toolroom.Identity `json:"identity,omitzero"`
	Started  time.Time         `json:"started"`
	Was      toolroom.Verdict  `json:"was"`
	WasRule  string            `json:"was_rule"`
	Now      toolroom.Verdict  `json:"now"`
	NowRule  string            `json:"now_rule"`
}

// ReplayResult is the result of a replay.
type ReplayResult struct {
	// Calls counts the calls decided again. Unknown counts those that had no decision, or whose
	// tool has an invalid name.
	Calls   int            `json:"calls"`
	Unknown int            `json:"unknown"`
	Changes []ReplayChange `json:"changes"`
}

// recordedLayers are the layers that depended on the state at the time of the call: the
// session's taint, the spending and the quarantined definitions. A replay keeps their steps.
var recordedLayers = []string{"policy.taint", "policy.spending", "policy.pin"}

// Replay decides one recorded call again and adds the outcome to r. Receipts do not contain
// taint and isolation, so they are unknown here.
func (t *Trial) Replay(ctx context.Context, r *ReplayResult, c RecordedCall) {
	tool, err := t.find(ctx, c.Tool)
	if err != nil || c.Was == "" {
		r.Unknown++
		return
	}
	call := &Context{Surface: c.Surface, Session: c.Session, Time: c.Started, Effects: c.Effects}
	if t.Enforced != nil {
		call.Enforced = t.Enforced(tool, c.Effects)
	}
	// If the arguments were not kept as an object, rules that depend on them do not apply.
	if tree, err := jsonx.Decode(c.Arguments, jsonx.Limits{}); err == nil {
		if _, ok := tree.(map[string]any); ok {
			call.Arguments = func() (any, error) { return tree, nil }
		}
	}
	was := slices.ContainsFunc(c.Layers, func(s toolroom.PolicyStep) bool {
		return s.Layer == SensitiveLayer && s.Effect == toolroom.VerdictAllow
	})
	now := t.decide(ctx, Request{Tool: tool, Who: c.Identity, Call: call}, was)
	for _, s := range c.Layers {
		if slices.Contains(recordedLayers, s.Layer) {
			now = now.WithStep(s)
		}
	}
	r.Calls++
	if now.Effect != c.Was {
		r.Changes = append(r.Changes, ReplayChange{c.ID, c.Tool, c.Identity, c.Started, c.Was, c.Rule, now.Effect, now.Rule})
	}
}

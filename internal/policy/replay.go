package policy

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Recorded is a call that was made, as its receipt has it.
type Recorded struct {
	ID       string
	Tool     string
	Identity toolroom.Identity
	Surface  string
	Session  string
	Started  time.Time
	// Arguments are as the receipt has them, without sensitive values; nil where
	// they were not kept.
	Arguments json.RawMessage
	// Effects are what it would have done, as far as that was known.
	Effects []toolroom.Effect
	// Was is what was decided then, Rule by what, and Layers how.
	Was    toolroom.Verdict
	Rule   string
	Layers []toolroom.PolicyStep
}

// ReplayChange is a call that would be decided otherwise now.
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

// Replayed is the outcome of a replay.
type Replayed struct {
	// Calls were decided again. Unknown are those that no policy had decided, or
	// whose tool has no name that can be read.
	Calls   int            `json:"calls"`
	Unknown int            `json:"unknown"`
	Changes []ReplayChange `json:"changes"`
}

// ofTheMoment are the layers that judged what was so then: the session's reach,
// what had been spent, what was held back. What they said stands.
var ofTheMoment = []string{"policy.taint", "policy.spending", "policy.pin"}

// Replay decides one recorded call again and adds it to r. Taint and isolation
// are not in receipts, and so are not known here.
func (t *Trial) Replay(ctx context.Context, r *Replayed, c Recorded) {
	tool, err := t.find(ctx, c.Tool)
	if err != nil || c.Was == "" {
		r.Unknown++
		return
	}
	call := &Context{Surface: c.Surface, Session: c.Session, Time: c.Started, Effects: c.Effects}
	if t.Enforced != nil {
		call.Enforced = t.Enforced(tool, c.Effects)
	}
	// Where the arguments were not kept as an object, what depends on them is
	// left out.
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
		if slices.Contains(ofTheMoment, s.Layer) {
			now = now.Then(s)
		}
	}
	r.Calls++
	if now.Effect != c.Was {
		r.Changes = append(r.Changes, ReplayChange{c.ID, c.Tool, c.Identity, c.Started, c.Was, c.Rule, now.Effect, now.Rule})
	}
}

// Package policy decides who may call what. [Layers] is the decision that
// toolroom.yaml writes down: a profile, plus allow, minus deny, narrowed by
// agent and provider. Every surface asks the same [Decider], for lists and for
// calls.
package policy

import (
	"github.com/toolroom/toolroom"
)

// Effect is the outcome of a decision.
type Effect string

// The effects.
const (
	Allow   Effect = "allow"
	Deny    Effect = "deny"
	Confirm Effect = "confirm"
)

// Decision is an outcome and the rule that made it.
type Decision struct {
	Effect Effect `json:"effect"`
	// Rule names the rule as the config writes it, for example
	// tools.deny[0]: "browser.*".
	Rule string `json:"rule"`
	// Because is the effect that the rule is about, when it is about effects. It
	// may repeat arguments, secrets among them.
	Because toolroom.Effect `json:"because,omitzero"`
	// Hint says how to change the outcome, when it is not Allow.
	Hint string `json:"hint,omitempty"`
}

// Decider decides about one tool for one identity. It is asked on the hot path
// and must be safe for concurrent use.
type Decider interface {
	Decide(tool *toolroom.Tool, who toolroom.Identity) Decision
}

// AllowAll permits everything: the policy of a library user who sets none.
type AllowAll struct{}

// Decide allows.
func (AllowAll) Decide(*toolroom.Tool, toolroom.Identity) Decision {
	return Decision{Effect: Allow, Rule: "no policy"}
}

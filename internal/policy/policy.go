// Package policy decides who may call what. [Compile] reads the section "tools"
// of toolroom.yaml into a [Policy]; decide.go has the steps of a decision in
// their order. Every surface asks the same [Decider], for lists and for calls.
package policy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
)

// Effect is the outcome of a decision.
type Effect string

// The effects, from the widest to the narrowest.
const (
	Allow   Effect = "allow"
	Confirm Effect = "confirm"
	Deny    Effect = "deny"
)

// narrower reports whether e permits less than other.
func (e Effect) narrower(other Effect) bool { return e.rank() > other.rank() }

func (e Effect) rank() int {
	switch e {
	case Deny:
		return 2
	case Confirm:
		return 1
	default:
		return 0
	}
}

// Decision is an outcome, the rule that made it, and what every layer said.
type Decision struct {
	Effect Effect `json:"effect"`
	// Rule names the rule as the config writes it, for example
	// tools.deny[0]: "browser.*".
	Rule string `json:"rule"`
	// Because is the effect that the rule is about, when it is about effects. It
	// may repeat arguments, secrets among them.
	Because toolroom.Effect `json:"because,omitzero"`
	// Isolation is the least isolation that the tool may run in; empty is none.
	Isolation Isolation `json:"isolation,omitempty"`
	// Engine is the one engine or runtime that the tool may run on; empty is any.
	Engine string `json:"engine,omitempty"`
	// Log asks for a line in the log for this call.
	Log bool `json:"log,omitempty"`
	// Hint says how to change the outcome, when it is not Allow.
	Hint string `json:"hint,omitempty"`
	// Steps are what each layer says, in order. They are shared: do not change
	// them.
	Steps []Step `json:"steps,omitempty"`
}

// Then is the decision after one step more: that of a part that is asked after
// the policy. A step that does not allow takes the decision's place, unless that
// denies.
func (d Decision) Then(s Step) Decision {
	d.Steps = append(slices.Clip(d.Steps), s)
	if d.Effect != Deny && s.Effect != Allow {
		d.Effect, d.Rule, d.Because, d.Hint = s.Effect, s.Rule, s.Because, s.Hint
	}
	d.Isolation = stronger(d.Isolation, s.Isolation)
	d.Engine = cmp.Or(d.Engine, s.Engine)
	return d
}

// Step is what one layer says of a tool.
type Step struct {
	Layer  string `json:"layer"`
	Effect Effect `json:"effect"`
	Rule   string `json:"rule"`
	// Because is the effect that the rule is about, as in a Decision.
	Because   toolroom.Effect `json:"because,omitzero"`
	Isolation Isolation       `json:"isolation,omitempty"`
	Engine    string          `json:"engine,omitempty"`
	// Hint says what would change the outcome, where the layer knows.
	Hint string `json:"hint,omitempty"`
}

// Request is what a decision is about.
type Request struct {
	Tool *toolroom.Tool
	Who  toolroom.Identity
	// Call is what one call brings. Nil asks whether the tool is to be seen at
	// all: what depends on the call then takes nothing away.
	Call *Context
}

// Context is what a call brings beside its tool and its caller. The runner
// fills it in; a part that is not known is left out, and written rules see it
// as missing.
type Context struct {
	// Arguments decodes the arguments. It is called when a rule depends on
	// them. Nil stands for a call whose arguments are not known, which nothing
	// but an explanation asks about: what depends on them takes nothing away.
	Arguments func() (any, error)
	Surface   string
	Session   string
	// Time is when the call came; zero is now.
	Time time.Time
	// Depth is how many calls this one is inside of.
	Depth int
	// Effects are what the call would do to the world; nil when nobody can tell.
	Effects []toolroom.Effect
	// Secrets are the scopes of the secrets that the tool would be given.
	Secrets []string
	// Taint are the labels of what the call's session has read.
	Taint []string
	// Isolation gives the strength of what the call would run in. It is called
	// when a rule depends on it; nil stands for none. Like Effects it is known
	// where Arguments are.
	Isolation func() Isolation
	// Budget is what the call and those inside it may still spend.
	Budget Budget
}

// Budget is what may still be spent: calls, and bytes of their results.
type Budget struct{ Calls, Bytes int64 }

// Explanation is a decision about a call, and what was known of the call.
type Explanation struct {
	Decision
	// Answered names the rule of an approval (see toolroom approve rules) that
	// answers the question in advance, where the decision is to ask.
	Answered string            `json:"answered,omitempty"`
	Effects  []toolroom.Effect `json:"effects,omitempty"`
	// Unwalled says that the tool runs in no sandbox, so that every call is refused
	// for the isolation that is asked for (sandbox_unavailable).
	Unwalled bool `json:"unwalled,omitempty"`
	// Unknown says that no source has the tool now.
	Unknown bool `json:"unknown,omitempty"`
}

// Decider decides. It is asked on the hot path and must be safe for concurrent
// use. ctx bounds look-ups such as that of an elevation.
type Decider interface {
	Decide(ctx context.Context, r Request) Decision
}

// AllowAll permits everything: the policy of a library user who sets none.
type AllowAll struct{}

// Decide allows.
func (AllowAll) Decide(context.Context, Request) Decision {
	return Decision{Effect: Allow, Rule: "no policy"}
}

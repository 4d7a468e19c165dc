// Package policy decides who may call which tool. [Compile] compiles the section
// "tools" of toolroom.yaml to a [Policy]; decide.go has the steps of a decision in
// order. All surfaces use the same [Decider], for lists and for calls.
//
// A policy can be tried before it is in force: on the cases of a file ([ReadCases],
// [Trial.Run]) and on recorded calls ([Trial.Replay]).
package policy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
)

// stricter reports whether verdict a permits less than b.
func stricter(a, b toolroom.Verdict) bool { return strictness(a) > strictness(b) }

func strictness(e toolroom.Verdict) int {
	switch e {
	case toolroom.VerdictDeny:
		return 2
	case toolroom.VerdictConfirm:
		return 1
	default:
		return 0
	}
}

// Decision is the outcome, the rule that decided, and the step of every layer.
type Decision struct {
	Effect toolroom.Verdict `json:"effect"`
	// Rule names the rule as the config writes it, for example
	// tools.deny[0]: "browser.*".
	Rule string `json:"rule"`
	// Because is the effect of the call that the rule matched, if the rule is about
	// effects. It may contain arguments and therefore secrets.
	Because toolroom.Effect `json:"because,omitzero"`
	// Isolation is the weakest isolation that the tool may run in; empty means none.
	Isolation toolroom.Isolation `json:"isolation,omitempty"`
	// Engine is the only engine or runtime that the tool may run on; empty means any.
	Engine string `json:"engine,omitempty"`
	// Rules are the rules about effects that apply to the call, if there are any.
	Rules []EffectRule `json:"effect_rules,omitempty"`
	// Log requests a log line for this call.
	Log bool `json:"log,omitempty"`
	// Hint says how to change the outcome, if it is not Allow.
	Hint string `json:"hint,omitempty"`
	// CLIHint is the hint for a person at the command line.
	CLIHint string `json:"-"`
	// Steps are the steps of all layers, in order. They are shared and must not be modified.
	Steps []toolroom.PolicyStep `json:"steps,omitempty"`
}

// EffectRule is a rule about effects, as it applies to a call.
type EffectRule struct {
	Rule string `json:"rule"`
	// Enforced means that the call's programs cannot break the rule, whatever they do.
	// Otherwise the call is judged by its predicted effects only.
	Enforced bool `json:"enforced"`

	effect  toolroom.Effect
	matched bool
}

// Describe describes how the rule is applied to the call.
func (r EffectRule) Describe() string {
	switch {
	case !r.Enforced:
		return "judged only: what is not known counts as breaking it"
	case r.effect.Kind == toolroom.EffectHost:
		return "enforced: the only way out refuses the host"
	case r.effect.Kind == toolroom.EffectCommand:
		return "enforced: the program cannot be started or read"
	case r.effect.Mode == "write":
		return "enforced: the files are read-only"
	case r.effect.Mode == "delete":
		return "enforced: the files cannot be removed or renamed"
	default:
		return "enforced: the files are not there"
	}
}

// Forbidden returns the effects that must be made impossible for the call's programs: those of
// the enforced rules, except rules that ask about this call. A person who approves the call
// approves these effects.
func (d Decision) Forbidden() []toolroom.Effect {
	var all []toolroom.Effect
	for _, r := range d.Rules {
		if r.Enforced && !r.matched {
			all = append(all, r.effect)
		}
	}
	return all
}

// WithStep returns the decision with one more step, from a part that decides after the policy.
// A step that does not allow replaces the outcome, unless d denies.
func (d Decision) WithStep(s toolroom.PolicyStep) Decision {
	d.Steps = append(slices.Clip(d.Steps), s)
	if d.Effect != toolroom.VerdictDeny && s.Effect != toolroom.VerdictAllow {
		d.Effect, d.Rule, d.Because, d.Hint, d.CLIHint = s.Effect, s.Rule, s.Because, s.Hint, s.CLIHint
	}
	d.Isolation = stronger(d.Isolation, s.Isolation)
	d.Engine = cmp.Or(d.Engine, s.Engine)
	return d
}

// Request is what a [Decider] decides on.
type Request struct {
	Tool *toolroom.Tool
	Who  toolroom.Identity
	// Call describes one call. If it is nil, the decision is whether the tool is visible:
	// then rules that depend on the call restrict nothing.
	Call *Context
}

// Context describes a call apart from its tool and caller. The runner fills it in. For written
// rules, an unknown part is missing.
type Context struct {
	// Arguments decodes the arguments. It is called only if a rule depends on them. It is nil
	// only for explanations without arguments: then rules that depend on them restrict nothing.
	Arguments func() (any, error)
	Surface   string
	Session   string
	// Time is when the call arrived; zero means now.
	Time time.Time
	// Depth is how many calls this one is nested in.
	Depth int
	// Effects are the predicted effects, or nil if they are unknown.
	Effects []toolroom.Effect
	// Enforced reports whether a rule about effects can be enforced on the call's programs,
	// whatever they do. If it is nil, no rule can. An effect without a target, which may be
	// any, does not match an enforced rule.
	Enforced func(rule toolroom.Effect) bool
	// Secrets are the scopes of the secrets that the tool would receive.
	Secrets []string
	// Taint are the names of the taint labels of the call.
	Taint []string
	// Isolation returns the isolation in which the call would run. It is called only if a rule
	// depends on it. If it is nil, there is none. Like Effects, it is known if Arguments are.
	Isolation func() toolroom.Isolation
	// Budget is what the call and its child calls may still use.
	Budget Budget
}

// Budget is the rest of a call's budget: calls, and bytes of their results.
type Budget struct{ Calls, Bytes int64 }

// Explanation is a decision on a call, with details of the call.
type Explanation struct {
	Decision
	// Answered describes the grant (see toolroom approve rules) that covers the call, if the
	// decision is to ask.
	Answered string            `json:"answered,omitempty"`
	Effects  []toolroom.Effect `json:"effects,omitempty"`
	// NeedsSandbox means that the tool needs isolation but does not run in a sandbox, so every
	// call fails (sandbox_unavailable).
	NeedsSandbox bool `json:"needs_sandbox,omitempty"`
	// Unknown means that no source offers the tool now.
	Unknown bool `json:"unknown,omitempty"`
}

// Decider makes decisions. It is on the hot path and must be safe for concurrent use. ctx
// limits lookups, for example of elevations.
type Decider interface {
	Decide(ctx context.Context, r Request) Decision
}

// AllowAll allows every call. It is the default policy of the Go library.
type AllowAll struct{}

// Decide implements [Decider].
func (AllowAll) Decide(context.Context, Request) Decision {
	return Decision{Effect: toolroom.VerdictAllow, Rule: "no policy"}
}

// Package policy decides who may call which tool. [Compile] compiles the section
// "tools" of toolroom.yaml into a [Policy]; decide.go lists the steps of a
// decision in order. Every surface asks the same [Decider], for lists and calls.
//
// A policy can be tried before it is in force: on the cases of a file ([ReadCases],
// [Trial.Run]) and on calls that were made ([Trial.Replay]).
package policy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
)

// narrower reports whether a permits less than b.
func narrower(a, b toolroom.Verdict) bool { return rankOf(a) > rankOf(b) }

func rankOf(e toolroom.Verdict) int {
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
	// CLIHint says the same to a person at the command line.
	CLIHint string `json:"-"`
	// Steps are the steps of all layers, in order. They are shared: do not change
	// them.
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

// How says in words how the rule holds for the call.
func (r EffectRule) How() string {
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

// Forbidden returns the effects that the call's programs must be kept from: those of the
// enforced rules, except of rules that ask and do so for this call. A person who approves
// it approves of what such a rule is about.
func (d Decision) Forbidden() []toolroom.Effect {
	var all []toolroom.Effect
	for _, r := range d.Rules {
		if r.Enforced && !r.matched {
			all = append(all, r.effect)
		}
	}
	return all
}

// Then returns the decision after one more step, of a part that decides after the
// policy. A step that does not allow replaces the outcome, unless d denies.
func (d Decision) Then(s toolroom.PolicyStep) Decision {
	d.Steps = append(slices.Clip(d.Steps), s)
	if d.Effect != toolroom.VerdictDeny && s.Effect != toolroom.VerdictAllow {
		d.Effect, d.Rule, d.Because, d.Hint, d.CLIHint = s.Effect, s.Rule, s.Because, s.Hint, s.CLIHint
	}
	d.Isolation = stronger(d.Isolation, s.Isolation)
	d.Engine = cmp.Or(d.Engine, s.Engine)
	return d
}

// Request is a question to a [Decider].
type Request struct {
	Tool *toolroom.Tool
	Who  toolroom.Identity
	// Call describes one call. If it is nil, the question is whether the tool is
	// visible at all: then rules that depend on the call restrict nothing.
	Call *Context
}

// Context describes a call apart from its tool and caller. The runner fills it
// in; written rules see a part that is not known as missing.
type Context struct {
	// Arguments decodes the arguments. It is called if a rule depends on them. It
	// is nil only for explanations without known arguments: then rules that depend
	// on them restrict nothing.
	Arguments func() (any, error)
	Surface   string
	Session   string
	// Time is when the call arrived; zero means now.
	Time time.Time
	// Depth is how many calls this one is nested in.
	Depth int
	// Effects are the predicted effects; nil if they are not known.
	Effects []toolroom.Effect
	// Enforced reports whether the call's programs can be kept from breaking a rule about
	// effects, whatever they do; nil means that they cannot. For an enforced rule an
	// effect without a target, which may be any, is no reason to deny or ask.
	Enforced func(rule toolroom.Effect) bool
	// Secrets are the scopes of the secrets that the tool would receive.
	Secrets []string
	// Taint are the names of the taint labels of the call.
	Taint []string
	// Isolation returns the isolation that the call would run in. It is called if a
	// rule depends on it; nil means none. Like Effects, it is known if Arguments
	// are.
	Isolation func() toolroom.Isolation
	// Budget is what the call and the calls inside it may still use.
	Budget Budget
}

// Budget is the rest of a budget: calls, and bytes of their results.
type Budget struct{ Calls, Bytes int64 }

// Explanation is a decision about a call, and what is known about the call.
type Explanation struct {
	Decision
	// Answered describes the grant (see toolroom approve rules) that covers the
	// call, if the decision is Confirm.
	Answered string            `json:"answered,omitempty"`
	Effects  []toolroom.Effect `json:"effects,omitempty"`
	// NeedsSandbox says that the tool runs in no sandbox but needs isolation, so that
	// every call is refused (sandbox_unavailable).
	NeedsSandbox bool `json:"needs_sandbox,omitempty"`
	// Unknown says that no source offers the tool now.
	Unknown bool `json:"unknown,omitempty"`
}

// Decider makes decisions. It is on the hot path and must be safe for concurrent
// use. ctx bounds look-ups, for example of elevations.
type Decider interface {
	Decide(ctx context.Context, r Request) Decision
}

// AllowAll allows every call. It is the default policy of the Go library.
type AllowAll struct{}

// Decide implements [Decider].
func (AllowAll) Decide(context.Context, Request) Decision {
	return Decision{Effect: toolroom.VerdictAllow, Rule: "no policy"}
}

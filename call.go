package toolroom

import (
	"encoding/json"
	"time"
)

// Call is one request to run a tool. A surface fills it in. The runner completes a copy and
// never changes the caller's.
type Call struct {
	// ID identifies the call in events and receipts. If it is empty, the runner assigns
	// one.
	ID string `json:"id,omitempty"`
	// Tool is the tool, in any spelling that [Spellings] accepts.
	Tool string `json:"tool"`
	// Arguments is a JSON object; empty means {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`

	// Identity is the caller, as authenticated by the surface.
	Identity Identity `json:"identity,omitzero"`
	// Session names the conversation that the call belongs to. Receipts record it, and
	// content that the conversation has read can restrict its calls. Empty means no
	// session.
	Session string `json:"session,omitempty"`
	// Surface is where the call came in: mcp, http, cli, go, chain, code, agent, cron, page or
	// replay.
	Surface string `json:"surface,omitempty"`

	// Environment selects the versions of released tools that serve the call: prod, test or
	// another configured one. Empty means prod. Calls from inside a tool inherit it.
	Environment string `json:"environment,omitempty"`

	// Timeout limits the run time; zero means the default (30 s), and a negative timeout
	// is an error. The tool's ceiling caps it. Time spent waiting for a person does not count.
	Timeout time.Duration `json:"timeout,omitempty"`
	// IdempotencyKey makes repeats of this call return the first result.
	IdempotencyKey string `json:"idempotency_key,omitempty"`

	// NoWait makes a call that needs a person's approval fail with approval_required at
	// once, instead of waiting for the answer.
	NoWait bool `json:"no_wait,omitempty"`
	// Approval is the id of the question that an earlier attempt of this exact call put to
	// a person. The answer to it applies, and no new question is asked.
	Approval string `json:"approval,omitempty"`
	// MaxOutput is the number of bytes of the result to show; zero means the default
	// (51,200), and a negative number shows all.
	MaxOutput int `json:"max_output,omitempty"`

	// Meta is extra data from a protocol's client (for MCP the members of _meta, a JSON
	// object). Only tools that speak the same protocol receive it. Policy, caches and keys
	// ignore it.
	Meta json.RawMessage `json:"meta,omitempty"`
	// More is a JSON object with the other members of the client's request, besides name,
	// arguments and Meta. Like Meta, it is for tools that speak the same protocol.
	More json.RawMessage `json:"more,omitempty"`

	// Parent is the call that made this one, and Budget is the rest of that call's budget.
	// The runner sets both for calls from inside a tool. A caller's own Budget bounds the
	// calls that this one makes; the steps of a chain and the calls of a batch count
	// against it, too.
	Parent string  `json:"parent,omitempty"`
	Budget *Budget `json:"-"`
}

// Identity describes a caller. The zero Identity is the local operator.
type Identity struct {
	// Subject is the authenticated person, service or token.
	Subject string `json:"subject,omitempty"`
	// Agent, Provider and Skill are claims of the caller. Policy may use them to narrow
	// what the caller may do, never to widen it.
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Skill    string `json:"skill,omitempty"`
	// Set is the tool set that narrows what the caller sees and may call; empty means none.
	Set string `json:"set,omitempty"`
	// Environment is the environment that the caller's token is bound to. Calls that name
	// another one are denied. Empty means that each call chooses.
	Environment string `json:"environment,omitempty"`
	// Token is the id of the bearer token that the caller came with, and empty for the local
	// operator and for callers that another server vouches for. Once the token was revoked
	// or has expired, the calls of the caller make no more calls. It does not show in JSON:
	// what stores a call to run it later stores it, too.
	Token string `json:"-"`
	// Groups are the subject's groups according to the identity provider.
	Groups []string `json:"groups,omitempty"`
	// Scopes are the scopes of an authorization server's token. Nil means that scopes do
	// not limit the caller; an empty list means that it has no scope.
	Scopes []string `json:"scopes,omitzero"`
}

// Key returns the owner name for state that is kept per identity: sessions, artifacts,
// idempotency keys, rate limits.
func (i Identity) Key() string {
	if i.Subject == "" {
		return "local"
	}
	return i.Subject
}

// String returns a short form for people and logs.
func (i Identity) String() string {
	s := i.Key()
	if i.Agent != "" {
		s += "/" + i.Agent
	}
	return s
}

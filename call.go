package toolroom

import (
	"encoding/json"
	"time"
)

// Call is one request to run a tool. A surface fills it in; the runner
// completes it and never changes the caller's copy.
type Call struct {
	// ID names this call in events and receipts. The runner assigns one when it
	// is empty.
	ID string `json:"id,omitempty"`
	// Tool is the tool in any accepted spelling (see [Spellings]).
	Tool string `json:"tool"`
	// Arguments is one JSON object; empty means {}.
	Arguments json.RawMessage `json:"arguments,omitempty"`

	// Identity is who calls, as the surface has authenticated it.
	Identity Identity `json:"identity,omitzero"`
	// Session names the conversation that the call belongs to: receipts have it,
	// and what the conversation has read can narrow its calls. Empty for none.
	Session string `json:"session,omitempty"`
	// Surface says which door the call came through: mcp, http, cli, go, chain,
	// code, agent, page or replay.
	Surface string `json:"surface,omitempty"`

	// Timeout is the longest run time; zero is the default (30 s). It is capped
	// by the tool's ceiling. Time spent waiting for a person does not count.
	Timeout time.Duration `json:"timeout,omitempty"`
	// IdempotencyKey makes repeats of this call return the first result.
	IdempotencyKey string `json:"idempotency_key,omitempty"`

	// NoWait ends a call that needs a person's approval with approval_required
	// at once, in place of holding the caller.
	NoWait bool `json:"no_wait,omitempty"`
	// Approval names the question that an earlier try of this very call put to
	// a person. Its answer decides, and the question is not put again.
	Approval string `json:"approval,omitempty"`
	// MaxOutput is how many bytes of the result are shown; zero is the default
	// (51,200), negative shows all.
	MaxOutput int `json:"max_output,omitempty"`

	// Meta is what the client of a protocol says besides the arguments (for MCP
	// members of _meta, a JSON object), for tools behind the same protocol. It
	// makes no difference to policy, caches and keys.
	Meta json.RawMessage `json:"meta,omitempty"`
	// More is what the client's request has besides name, arguments and Meta, a
	// JSON object, for tools behind the same protocol, as Meta is.
	More json.RawMessage `json:"more,omitempty"`

	// Parent is the call that made this one, and Budget what that call may
	// still spend. Both are set by the runner for calls from inside a tool.
	Parent string  `json:"parent,omitempty"`
	Budget *Budget `json:"-"`
}

// Identity says who calls. The zero Identity is the local operator.
type Identity struct {
	// Subject is the person, service or token that was authenticated.
	Subject string `json:"subject,omitempty"`
	// Agent, Provider and Skill are what the caller says it acts as; policy may
	// narrow by them, never widen.
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Skill    string `json:"skill,omitempty"`
	// Groups are those that the identity provider says the subject is in.
	Groups []string `json:"groups,omitempty"`
	// Scopes are what a token of an authorization server allows. Nil means that
	// the caller is not limited by scopes; an empty list, that it has none.
	Scopes []string `json:"scopes,omitzero"`
}

// Key names the owner of state that is kept apart per identity: sessions,
// artifacts, idempotency keys, rate limits.
func (i Identity) Key() string {
	if i.Subject == "" {
		return "local"
	}
	return i.Subject
}

// String is a short form for people and logs.
func (i Identity) String() string {
	s := i.Key()
	if i.Agent != "" {
		s += "/" + i.Agent
	}
	return s
}

package toolroom

import (
	"encoding/json"
	"fmt"
	"time"
)

// ApprovalState is the state of an [Approval].
type ApprovalState string

// The states. Only a pending approval changes state: answers approve or decline it, it
// expires with time, and it is cancelled when the caller gives up the call.
const (
	ApprovalPending   ApprovalState = "pending"
	ApprovalApproved  ApprovalState = "approved"
	ApprovalDeclined  ApprovalState = "declined"
	ApprovalExpired   ApprovalState = "expired"
	ApprovalCancelled ApprovalState = "cancelled"
)

// ApprovalScope says which calls an approval covers.
type ApprovalScope string

// The scopes, narrowest first. An approval wider than ScopeOnce becomes a [Grant].
const (
	// ScopeOnce lets this call run once.
	ScopeOnce ApprovalScope = "once"
	// ScopeCall lets the very same call (tool, version, arguments, caller) run whenever it
	// is made.
	ScopeCall ApprovalScope = "call"
	// ScopeSession lets the caller use the tool until its session ends.
	ScopeSession ApprovalScope = "session"
	// ScopeAlways lets the caller use the tool from now on.
	ScopeAlways ApprovalScope = "always"
)

// Approval is a question to a person about one exact call.
type Approval struct {
	ID   string `json:"id"`
	Call string `json:"call"`
	// Digest binds the answer to the call: the SHA-256, in hex, over tool id, version,
	// canonical arguments, what else goes to the tool, and identity.
	Digest    string          `json:"digest"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Identity  Identity        `json:"identity,omitzero"`
	Session   string          `json:"session,omitempty"`
	// Environment is the environment of the call; empty means prod.
	Environment string `json:"environment,omitempty"`
	// Reason is the policy rule that requires the approval.
	Reason string `json:"reason"`
	// Effects describes the predicted effects in plain words, and Diff the change to a file
	// as a unified diff. Both are empty if they are not known.
	Effects []string `json:"effects,omitempty"`
	Diff    string   `json:"diff,omitempty"`
	// ApprovalTerms are the terms at the time of the question.
	ApprovalTerms
	State   ApprovalState `json:"state"`
	Created time.Time     `json:"created"`
	// Expires is when the wait for an answer ends. Approving moves it: the approved call
	// must start within the same span after the answer.
	Expires time.Time `json:"expires"`

	// Votes are the answers so far. Answered and Comment belong to the last one. By names
	// all people who approved, or the one who declined.
	Votes    []Vote    `json:"votes,omitempty"`
	Answered time.Time `json:"answered,omitzero"`
	By       string    `json:"by,omitempty"`
	Comment  string    `json:"comment,omitempty"`
	// Scope says which calls the approval lets run.
	Scope ApprovalScope `json:"scope,omitempty"`
	// Notified names the webhooks that have received the question.
	Notified []string `json:"notified,omitempty"`
	// Used is set once the approved call has started, or the decline has been reported to
	// its call: an answer serves one call.
	Used time.Time `json:"used,omitzero"`
}

// Missing returns how many people must still approve.
func (a *Approval) Missing() int {
	if a.State != ApprovalPending {
		return 0
	}
	return max(a.People, 1) - len(a.Votes)
}

// ApprovalTerms say who may answer a question and which scopes the answer may have.
type ApprovalTerms struct {
	// People is how many people must approve; zero means one.
	People int `json:"people,omitempty"`
	// Approvers may answer; empty means operator, group:approvers and hook:*. Each is one of:
	//
	//	operator    the local operator: the command line, the page on this machine
	//	caller      the caller's own user, whom its MCP client asks
	//	group:NAME  tokens of a group
	//	hook:NAME   the signed link that a webhook was sent
	//	NAME        the subject of a token, or the operator's user name
	//
	// In each, * stands for any run of characters but a slash.
	Approvers []string `json:"approvers,omitempty"`
	// Scopes are the scopes that an answer may have; empty means all.
	Scopes []ApprovalScope `json:"scopes,omitempty"`
	// TTL is how long the question stays open; zero means the time of the config.
	TTL time.Duration `json:"-"`
}

// Answer is a person's answer to an [Approval].
type Answer struct {
	Approve bool
	// By is the person's name, for display only.
	By      string
	Comment string
	// Scope is the scope of an approval; empty means [ScopeOnce].
	Scope ApprovalScope
	// Who is the identity that answers, as the surface authenticated it; the zero Identity
	// is the local operator.
	Who Identity
	// Elicited says that Who is the caller itself: its client was asked about exactly this
	// call and reports that its user has answered.
	Elicited bool
	// Hook names the webhook through whose signed link the answer came; then Who is empty.
	Hook string
}

// Vote is the record of one person's answer.
type Vote struct {
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	// Voter is the identity, webhook or operator that answered under the name By.
	Voter   string        `json:"voter"`
	Comment string        `json:"comment,omitempty"`
	Scope   ApprovalScope `json:"scope,omitempty"`
	Time    time.Time     `json:"time"`
}

// Grant is an approval that holds for more than one call. It covers only calls that policy
// would ask about, by the caller that it was granted to; calls that policy denies stay
// denied.
type Grant struct {
	ID string `json:"id"`
	// Approval is the id of the approval that became the grant.
	Approval string        `json:"approval"`
	Scope    ApprovalScope `json:"scope"`
	Tool     string        `json:"tool"`
	Identity Identity      `json:"identity,omitzero"`
	// Environment is the only one in which the grant holds; empty means prod.
	Environment string `json:"environment,omitempty"`
	// Session restricts a grant with [ScopeSession], Digest one with [ScopeCall].
	Session string    `json:"session,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	// Expires is when the grant ends; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// String describes the grant: who may call what, and who granted it.
func (g *Grant) String() string {
	said := map[ApprovalScope]string{ScopeAlways: "always", ScopeSession: "in session " + g.Session, ScopeCall: "this very call"}[g.Scope]
	where := ""
	if g.Environment != "" {
		where = " in the environment " + g.Environment
	}
	return fmt.Sprintf("%s: %s may call %s%s, %s, said %s on %s", g.ID, g.Identity, g.Tool, where, said, g.By, g.Created.UTC().Format(time.DateOnly))
}

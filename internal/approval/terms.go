package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// DefaultApprovers returns the approvers of terms that name none. A caller with a
// token is not among them, because the agent itself may hold the token.
func DefaultApprovers() []string { return []string{"operator", "group:approvers", "hook:*"} }

// hookPrefix begins the name of an approver that answers by a signed link.
const hookPrefix = "hook:"

// CheckApprover returns an error if word is not a valid entry of Approvers.
func CheckApprover(word string) error {
	if _, err := path.Match(word, ""); err != nil || word == "" {
		return fmt.Errorf("%q is not an approver: write operator, caller, group:NAME, hook:NAME or a name", word)
	}
	return nil
}

// hasApprover reports whether the terms permit one of the names as an approver.
func hasApprover(t toolroom.ApprovalTerms, names ...string) bool {
	approvers := t.Approvers
	if len(approvers) == 0 {
		approvers = DefaultApprovers()
	}
	for _, pattern := range approvers {
		for _, name := range names {
			if ok, _ := path.Match(pattern, name); ok { // a bad pattern names nobody
				return true
			}
		}
	}
	return false
}

// IsApprover reports whether who is an approver of the terms.
func IsApprover(t toolroom.ApprovalTerms, who toolroom.Identity) bool {
	return isOperator(who) && hasApprover(t, "operator") || !isOperator(who) && hasApprover(t, namesOf(who)...)
}

// WithinBounds reports whether who, if bound to a tool set or an environment, is bound to
// that of the call.
func WithinBounds(a *toolroom.Approval, who toolroom.Identity) bool {
	return (who.Set == "" || who.Set == a.Identity.Set) && (who.Environment == "" || Environment(who.Environment, who) == a.Environment)
}

// CallerMayAnswer reports whether the user of a caller's client may answer: if the
// terms allow it, or if that user is the local operator.
func CallerMayAnswer(t toolroom.ApprovalTerms, who toolroom.Identity) bool {
	return hasApprover(t, "caller") || isOperator(who) && hasApprover(t, "operator")
}

// MayApprove reports whether who may approve a now. Somebody who has approved it already may not:
// another person must answer.
func MayApprove(a *toolroom.Approval, who toolroom.Identity, now time.Time) bool {
	scopes := PermittedScopes(a)
	if len(scopes) == 0 {
		return false
	}
	copied := *a
	return Decide(&copied, toolroom.Answer{Approve: true, By: who.Key(), Who: who, Scope: scopes[0]}, now) == nil
}

// MayDecline reports whether who may decline a now, also if they have approved it before.
func MayDecline(a *toolroom.Approval, who toolroom.Identity, now time.Time) bool {
	copied := *a
	return Decide(&copied, toolroom.Answer{By: who.Key(), Who: who}, now) == nil
}

// checkAnswer returns an error that says why an answer does not count, or nil if it does.
func checkAnswer(a *toolroom.Approval, answer toolroom.Answer) error {
	own := answer.Who.Key() == a.Identity.Key()
	if answer.Hook == "" && !WithinBounds(a, answer.Who) {
		return newError(a, toolroom.CodeDenied, "is outside the tool set or environment to which the token of "+answer.Who.Key()+" is bound", "answer with a token that is not bound")
	}
	var allowed bool
	switch {
	case answer.Hook != "":
		allowed = hasApprover(a.ApprovalTerms, voter(answer))
	case answer.Elicited:
		allowed = own && CallerMayAnswer(a.ApprovalTerms, answer.Who)
	case isOperator(answer.Who):
		allowed = hasApprover(a.ApprovalTerms, "operator", answer.By)
	case own:
		return newError(a, toolroom.CodeDenied, "cannot be answered by "+answer.Who.Key()+", who made the call", "another person must answer: toolroom approve "+a.ID)
	default:
		allowed = hasApprover(a.ApprovalTerms, namesOf(answer.Who)...)
	}
	if !allowed {
		return newError(a, toolroom.CodeDenied, "cannot be answered by "+voter(answer), "one of these may answer: "+strings.Join(approvers(a), ", "))
	}
	if !answer.Approve {
		return nil
	}
	if !slices.Contains(Scopes(), answer.Scope) || len(a.Scopes) > 0 && !slices.Contains(a.Scopes, answer.Scope) {
		return newError(a, toolroom.CodeInvalidArguments, fmt.Sprintf("cannot be approved with scope %q", answer.Scope), "use one of: "+scopeWords(a))
	}
	if answer.Scope == toolroom.ScopeSession && a.Session == "" {
		return newError(a, toolroom.CodeInvalidArguments, "belongs to a call without a session", "approve it once, or approve this exact call")
	}
	return nil
}

// namesOf returns the names by which terms can permit who as an approver. It omits a subject
// that looks like another kind of name.
func namesOf(who toolroom.Identity) []string {
	var names []string
	for _, group := range who.Groups {
		names = append(names, "group:"+group)
	}
	reserved := who.Subject == "operator" || who.Subject == "caller" || strings.HasPrefix(who.Subject, "group:") || strings.HasPrefix(who.Subject, hookPrefix)
	if !reserved {
		names = append(names, who.Subject)
	}
	return names
}

func approvers(a *toolroom.Approval) []string {
	if len(a.Approvers) == 0 {
		return DefaultApprovers()
	}
	return a.Approvers
}

// PermittedScopes returns the scopes that an answer to a may have, narrowest first.
func PermittedScopes(a *toolroom.Approval) []toolroom.ApprovalScope {
	return slices.DeleteFunc(Scopes(), func(s toolroom.ApprovalScope) bool {
		return s == toolroom.ScopeSession && a.Session == "" || len(a.Scopes) > 0 && !slices.Contains(a.Scopes, s)
	})
}

func scopeWords(a *toolroom.Approval) string {
	scopes := PermittedScopes(a)
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// isOperator reports whether who is the local operator.
func isOperator(who toolroom.Identity) bool { return who.Subject == "" }

// grantFor returns the grant that an approval becomes, or nil if it covers one
// call only.
func grantFor(a *toolroom.Approval, id string, sessionTTL time.Duration) *toolroom.Grant {
	if a.State != toolroom.ApprovalApproved || a.Scope == "" || a.Scope == toolroom.ScopeOnce {
		return nil
	}
	g := &toolroom.Grant{ID: id, Approval: a.ID, Scope: a.Scope, Tool: a.Tool, Identity: a.Identity, Environment: a.Environment, By: a.By, Created: a.Answered}
	switch a.Scope {
	case toolroom.ScopeSession:
		g.Session, g.Expires = a.Session, a.Answered.Add(sessionTTL)
	case toolroom.ScopeCall:
		g.Digest = a.Digest
	}
	return g
}

// Covers reports whether the grant covers the call of a.
func Covers(g *toolroom.Grant, a *toolroom.Approval) bool {
	if g.Tool != a.Tool || g.Environment != a.Environment || Caller(g.Identity) != Caller(a.Identity) {
		return false
	}
	if len(a.Scopes) > 0 && !slices.Contains(a.Scopes, g.Scope) {
		return false // the terms are stricter now
	}
	switch g.Scope {
	case toolroom.ScopeAlways:
		return true
	case toolroom.ScopeSession:
		return g.Session != "" && g.Session == a.Session
	case toolroom.ScopeCall:
		return g.Digest == a.Digest
	default:
		return false
	}
}

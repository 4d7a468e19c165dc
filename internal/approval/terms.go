package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"

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

// names reports whether one of the names is an approver of the terms.
func names(t toolroom.ApprovalTerms, names ...string) bool {
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

// IsFor reports whether who is an approver of the terms.
func IsFor(t toolroom.ApprovalTerms, who toolroom.Identity) bool {
	return isOperator(who) && names(t, "operator") || !isOperator(who) && names(t, namesOf(who)...)
}

// WithinBounds reports whether who, if bound to a tool set or an environment, is bound to
// that of the call.
func WithinBounds(a *toolroom.Approval, who toolroom.Identity) bool {
	return (who.Set == "" || who.Set == a.Identity.Set) && (who.Environment == "" || Environment(who.Environment, who) == a.Environment)
}

// CallerAnswers reports whether the user of a caller's client may answer: if the
// terms allow it, or if that user is the local operator.
func CallerAnswers(t toolroom.ApprovalTerms, who toolroom.Identity) bool {
	return names(t, "caller") || isOperator(who) && names(t, "operator")
}

// permits returns an error that says why an answer does not count, or nil.
func permits(a *toolroom.Approval, answer toolroom.Answer) error {
	own := answer.Who.Key() == a.Identity.Key()
	if answer.Hook == "" && !WithinBounds(a, answer.Who) {
		return fail(a, toolroom.CodeDenied, "is outside the tool set or environment to which the token of "+answer.Who.Key()+" is bound", "answer with a token that is not bound")
	}
	var allowed bool
	switch {
	case answer.Hook != "":
		allowed = names(a.ApprovalTerms, voter(answer))
	case answer.Elicited:
		allowed = own && CallerAnswers(a.ApprovalTerms, answer.Who)
	case isOperator(answer.Who):
		allowed = names(a.ApprovalTerms, "operator", answer.By)
	case own:
		return fail(a, toolroom.CodeDenied, "cannot be answered by "+answer.Who.Key()+", who made the call", "another person must answer: toolroom approve "+a.ID)
	default:
		allowed = names(a.ApprovalTerms, namesOf(answer.Who)...)
	}
	if !allowed {
		return fail(a, toolroom.CodeDenied, "cannot be answered by "+voter(answer), "one of these may answer: "+strings.Join(approvers(a), ", "))
	}
	if !answer.Approve {
		return nil
	}
	if !slices.Contains(Scopes(), answer.Scope) || len(a.Scopes) > 0 && !slices.Contains(a.Scopes, answer.Scope) {
		return fail(a, toolroom.CodeInvalidArguments, fmt.Sprintf("cannot be approved with scope %q", answer.Scope), "use one of: "+scopeWords(a))
	}
	if answer.Scope == toolroom.ScopeSession && a.Session == "" {
		return fail(a, toolroom.CodeInvalidArguments, "belongs to a call without a session", "approve it once, or approve this exact call")
	}
	return nil
}

// namesOf returns the names under which who can be an approver. A subject that
// looks like another kind of name is not among them.
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

// Permitted returns the scopes that an approval of a may have, narrowest first.
func Permitted(a *toolroom.Approval) []toolroom.ApprovalScope {
	return slices.DeleteFunc(Scopes(), func(s toolroom.ApprovalScope) bool {
		return s == toolroom.ScopeSession && a.Session == "" || len(a.Scopes) > 0 && !slices.Contains(a.Scopes, s)
	})
}

func scopeWords(a *toolroom.Approval) string {
	scopes := Permitted(a)
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// isOperator reports whether who is the local operator.
func isOperator(who toolroom.Identity) bool { return who.Subject == "" }

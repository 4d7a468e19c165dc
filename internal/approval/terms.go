package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Terms say who may answer a question and which scopes the answer may have.
type Terms struct {
	// People is how many people must approve; zero means one.
	People int `json:"people,omitempty"`
	// Approvers may answer; empty means [DefaultApprovers]. Each is one of:
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
	Scopes []Scope `json:"scopes,omitempty"`
	// TTL is how long the question stays open; zero means [Options.TTL].
	TTL time.Duration `json:"-"`
}

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
func (t Terms) names(names ...string) bool {
	approvers := t.Approvers
	if len(approvers) == 0 {
		approvers = DefaultApprovers()
	}
	for _, pattern := range approvers {
		for _, name := range names {
			if ok, err := path.Match(pattern, name); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// IsFor reports whether who is an approver of the terms.
func (t Terms) IsFor(who toolroom.Identity) bool {
	return isOperator(who) && t.names("operator") || !isOperator(who) && t.names(namesOf(who)...)
}

// CallerAnswers reports whether the user of a caller's client may answer: if the
// terms allow it, or if that user is the local operator.
func (t Terms) CallerAnswers(who toolroom.Identity) bool {
	return t.names("caller") || isOperator(who) && t.names("operator")
}

// permits returns an error that says why an answer does not count, or nil.
func (a *Approval) permits(answer Answer) error {
	own := answer.Hook == "" && answer.Who.Key() == a.Identity.Key()
	var allowed bool
	switch {
	case answer.Hook != "":
		allowed = a.names(answer.voter())
	case answer.Elicited:
		allowed = own && a.CallerAnswers(answer.Who)
	case isOperator(answer.Who):
		allowed = a.names("operator", answer.By)
	case own:
		return a.fail(toolroom.CodeDenied, "cannot be answered by "+answer.Who.Key()+", who made the call", "another person must answer: toolroom approve "+a.ID)
	default:
		allowed = a.names(namesOf(answer.Who)...)
	}
	if !allowed {
		return a.fail(toolroom.CodeDenied, "cannot be answered by "+answer.voter(), "one of these may answer: "+strings.Join(a.approvers(), ", "))
	}
	if !answer.Approve {
		return nil
	}
	if !slices.Contains(Scopes(), answer.Scope) || len(a.Scopes) > 0 && !slices.Contains(a.Scopes, answer.Scope) {
		return a.fail(toolroom.CodeInvalidArguments, fmt.Sprintf("cannot be approved with scope %q", answer.Scope), "use one of: "+a.scopeWords())
	}
	if answer.Scope == ThisSession && a.Session == "" {
		return a.fail(toolroom.CodeInvalidArguments, "belongs to a call without a session", "approve it once, or approve this exact call")
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

func (a *Approval) approvers() []string {
	if len(a.Approvers) == 0 {
		return DefaultApprovers()
	}
	return a.Approvers
}

// Permitted returns the scopes that an approval of a may have, narrowest first.
func (a *Approval) Permitted() []Scope {
	return slices.DeleteFunc(Scopes(), func(s Scope) bool {
		return s == ThisSession && a.Session == "" || len(a.Scopes) > 0 && !slices.Contains(a.Scopes, s)
	})
}

func (a *Approval) scopeWords() string {
	scopes := a.Permitted()
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// isOperator reports whether who is the local operator.
func isOperator(who toolroom.Identity) bool { return who.Subject == "" }

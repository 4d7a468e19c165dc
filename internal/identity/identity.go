// Package identity compares callers beyond their subject: a token of the same subject may be
// narrowed to an agent, a provider, a skill, groups or scopes, and must not gain what it
// lacks from what its wider self has left.
package identity

import (
	"encoding/json"
	"slices"

	"github.com/toolroom/toolroom"
)

// Owner returns the owner name for state that gives its holder power, such as logins. Other
// than [toolroom.Identity.Key], it differs between callers that are narrowed differently.
func Owner(who toolroom.Identity) string {
	key := who.Key()
	who.Subject, who.Groups, who.Scopes = "", sorted(who.Groups), sorted(who.Scopes)
	narrowed, err := json.Marshal(who)
	if err != nil {
		panic(err) // it holds only strings
	}
	return key + "\n" + string(narrowed)
}

// sorted returns a set in the one form that it has; nil stays nil.
func sorted(set []string) []string {
	set = slices.Clone(set)
	slices.Sort(set)
	return slices.Compact(set)
}

// Reaches reports whether a caller may use what another identity has made: it has the same
// subject and is at least as wide in everything else.
func Reaches(caller, maker toolroom.Identity) bool {
	within := func(caller, maker string) bool { return caller == "" || caller == maker }
	return caller.Key() == maker.Key() &&
		within(caller.Agent, maker.Agent) && within(caller.Provider, maker.Provider) && within(caller.Skill, maker.Skill) &&
		isSubset(maker.Groups, caller.Groups) &&
		(caller.Scopes == nil || maker.Scopes != nil && isSubset(maker.Scopes, caller.Scopes))
}

func isSubset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

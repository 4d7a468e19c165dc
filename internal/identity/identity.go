// Package identity compares callers beyond their subject: a token of the same subject may be
// narrowed to an agent, a provider, a skill, groups or scopes, and must not gain rights from
// state that a wider identity of the subject has left.
//
// State that gives its holder rights, or runs code, belongs to one [Owner]. Data may be read by
// every identity that [Reaches] its maker.
package identity

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Owner returns the owner name for state of a caller. Other than [toolroom.Identity.Key], it
// differs between callers that are narrowed differently; it is the key for a caller that is
// not narrowed.
func Owner(who toolroom.Identity) string {
	key := who.Key()
	if who.Agent == "" && who.Provider == "" && who.Skill == "" && who.Set == "" && who.Environment == "" && len(who.Groups) == 0 && who.Scopes == nil &&
		!strings.Contains(key, "\n") {
		return key // as most callers are
	}
	who.Subject, who.Groups, who.Scopes = "", sorted(who.Groups), sorted(who.Scopes)
	narrowed, err := json.Marshal(who)
	if err != nil {
		panic(err) // it holds only strings
	}
	return key + "\n" + string(narrowed)
}

// everything takes the place of the narrowing in the owner name of [All].
const everything = "*"

// All returns an owner name, for operators, that reaches all that callers of a subject have
// made.
func All(subject string) string { return subject + "\n" + everything }

// Subject returns the subject's key in an owner name.
func Subject(owner string) string {
	if at := strings.LastIndexByte(owner, '\n'); at >= 0 {
		return owner[:at]
	}
	return owner
}

// OwnerReaches is [Reaches] for owner names.
func OwnerReaches(caller, maker string) bool {
	if caller == maker {
		return true
	}
	subject := Subject(caller)
	if subject != Subject(maker) {
		return false
	}
	if caller == All(subject) {
		return true
	}
	c, err := Parse(caller)
	if err != nil {
		return false
	}
	m, err := Parse(maker)
	return err == nil && Reaches(c, m)
}

// Parse returns the identity whose owner name it is given.
func Parse(owner string) (who toolroom.Identity, err error) {
	subject := Subject(owner)
	if subject != owner {
		err = json.Unmarshal([]byte(owner[len(subject)+1:]), &who)
	}
	who.Subject = subject
	return who, err
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
		within(caller.Agent, maker.Agent) && within(caller.Provider, maker.Provider) && within(caller.Skill, maker.Skill) && within(caller.Set, maker.Set) && within(caller.Environment, maker.Environment) &&
		isSubset(maker.Groups, caller.Groups) &&
		(caller.Scopes == nil || maker.Scopes != nil && isSubset(maker.Scopes, caller.Scopes))
}

func isSubset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

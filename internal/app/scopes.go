package app

import (
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
)

// scopes holds the scopes that a tool requires of callers with a token of an authorization
// server, as patterns of tools by scope.
type scopes map[string][]policy.Pattern

func newScopes(c config.Server, tools policy.Config) (scopes, error) {
	needed := scopes{}
	if c.Auth.OAuth == nil {
		return needed, nil
	}
	for scope, patterns := range c.Auth.OAuth.Scopes {
		parsed, err := tools.ParsePatterns(patterns)
		if err != nil {
			return nil, err
		}
		needed[scope] = parsed
	}
	return needed, nil
}

// of returns the scopes that a tool requires.
func (s scopes) of(t *toolroom.Tool) []string {
	if len(s) == 0 {
		return nil
	}
	var needed []string
	for _, scope := range slices.Sorted(maps.Keys(s)) {
		if policy.MatchesTool(s[scope], t) {
			needed = append(needed, scope)
		}
	}
	return needed
}

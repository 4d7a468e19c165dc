package policy

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// NamedPattern is a pattern in the config that names tools, and its key.
type NamedPattern struct {
	Key     string
	Pattern Pattern
}

// NamedPatterns returns the patterns in the config that name tools, not a property or a group of
// tools.
func (p *Policy) NamedPatterns() []NamedPattern { return p.namedPatterns }

// NameGlobs returns the globs for the namespace and the name of the tools that p selects. ok is
// false if p does not select tools by their names.
func (p Pattern) NameGlobs() (namespace, name string, ok bool) {
	if p.glob == "" || p.glob == "*" {
		return "", "", false
	}
	return strings.Cut(p.glob, ":")
}

// MatchesAny reports whether the pattern selects one of the tools, in any spelling.
func (p Pattern) MatchesAny(tools []toolroom.Tool) bool {
	for i := range tools {
		if p.MatchesAnySpelling(&tools[i]) {
			return true
		}
	}
	return false
}

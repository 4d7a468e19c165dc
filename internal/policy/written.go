package policy

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// Named is a pattern of the config that names tools, and the key at which it is written.
type Named struct {
	Key     string
	Pattern Pattern
}

// Named returns the patterns of the config that name tools, rather than a property or a
// group of them.
func (p *Policy) Named() []Named { return p.named }

// Name returns the globs for the namespace and the name of the tools that a pattern
// selects. ok is false if the pattern does not select tools by their names.
func (p Pattern) Name() (namespace, name string, ok bool) {
	if p.glob == "" || p.glob == "*" {
		return "", "", false
	}
	return strings.Cut(p.glob, ":")
}

// MayMatch reports whether the pattern selects, in any spelling, a tool of the list.
func (p Pattern) MayMatch(tools []toolroom.Tool) bool {
	for i := range tools {
		if p.Catches(&tools[i]) {
			return true
		}
	}
	return false
}

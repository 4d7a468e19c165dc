package policy

import "maps"

// GroupPatterns are all groups, builtin ones and those of c, as patterns. A
// group with a mistake is left out: Compile reports it.
func (c Config) GroupPatterns() map[string]Pattern {
	all := builtinGroups()
	maps.Copy(all, c.Groups)
	patterns := make(map[string]Pattern, len(all))
	for name := range all {
		if p, err := ParsePattern("group:"+name, all); err == nil {
			patterns[name] = p
		}
	}
	return patterns
}

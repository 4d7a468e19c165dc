package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Pattern selects tools:
//
//	github:create_issue  github.create_issue  mcp:github:create_issue   one tool
//	browser.*  mcp:github:*  *:delete_*  *                              a glob
//	group:fs                                                            a named set
//	hint:destructive  tag:beta  source:mcp                              a property
//
// In a glob, * stands for any characters, and the first dot or colon separates the namespace
// from the name.
type Pattern struct {
	text string
	// glob is matched against namespace:name.
	glob string
	mcp  bool // only tools of MCP servers
	hint string
	tag  string
	kind toolroom.SourceKind
	any  []Pattern // group
}

// ParsePattern parses a pattern; groups resolves group names.
func ParsePattern(text string, groups map[string][]string) (Pattern, error) {
	p := Pattern{text: text}
	prefix, rest, _ := strings.Cut(text, ":")
	switch prefix {
	case "effect":
		return p, errEffectPattern
	case "group":
		members, ok := groups[rest]
		if !ok {
			return p, fmt.Errorf("there is no group %q%s", rest, didYouMean(rest, groups))
		}
		for _, m := range members {
			member, err := ParsePattern(m, nil)
			if err != nil {
				return p, fmt.Errorf("group %s: %w", rest, err)
			}
			p.any = append(p.any, member)
		}
		return p, nil
	case "hint":
		switch rest {
		case "readOnly", "openWorld": // as MCP and the API write them
			rest = map[string]string{"readOnly": "read_only", "openWorld": "open_world"}[rest]
		case "read_only", "destructive", "idempotent", "open_world":
		default:
			return p, fmt.Errorf("there is no hint %q: use read_only, destructive, idempotent or open_world", rest)
		}
		p.hint = rest
		return p, nil
	case "tag":
		if p.tag = cleanTag(rest); p.tag == "" {
			return p, fmt.Errorf("%q has no tag name: write tag:name", text)
		}
		return p, nil
	case "source":
		if _, known := sourceKinds()[rest]; !known {
			return p, fmt.Errorf("there is no kind of source %q%s", rest, didYouMean(rest, sourceKinds()))
		}
		p.kind = toolroom.SourceKind(rest)
		return p, nil
	}

	glob := text
	if prefix == "mcp" && strings.ContainsAny(rest, ":/") {
		p.mcp = true
		glob = strings.Replace(rest, "/", ":", 1)
	}
	if !strings.Contains(glob, ":") {
		switch {
		case strings.Contains(glob, "."):
			glob = strings.Replace(glob, ".", ":", 1)
		case glob != "*":
			return p, fmt.Errorf("%q has no namespace: write namespace.name, namespace.* or *", text)
		}
	}
	for _, r := range glob {
		ok := r == '*' || r == ':' || r == '_' || r == '.' || r == '-' ||
			'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !ok {
			return p, fmt.Errorf("%q: %q is not allowed in a pattern", text, r)
		}
	}
	if namespace, name, _ := strings.Cut(glob, ":"); glob != "*" && (namespace == "" || name == "" || strings.Contains(name, ":")) {
		return p, fmt.Errorf("%q can match no tool: write namespace.name or namespace.*, or mcp:server:tool", text)
	}
	p.glob = glob
	return p, nil
}

// cleanTag returns a tag in the form in which the catalog keeps it: "Pet Store" is pet-store.
func cleanTag(tag string) string { return strings.Join(strings.Fields(strings.ToLower(tag)), "-") }

// sourceKinds returns the kinds of sources that a pattern may name.
func sourceKinds() map[string]bool {
	kinds := map[string]bool{}
	for _, k := range []toolroom.SourceKind{
		toolroom.SourceGo, toolroom.SourcePython, toolroom.SourceJavaScript, toolroom.SourceWASM, toolroom.SourceScript, toolroom.SourceHTTP,
		toolroom.SourceOpenAPI, toolroom.SourceGraphQL, toolroom.SourceMCP, toolroom.SourceCLI, toolroom.SourceBuiltin,
	} {
		kinds[string(k)] = true
	}
	return kinds
}

// ParsePatterns parses patterns that use the built-in groups only.
func ParsePatterns(texts []string) ([]Pattern, error) { return Config{}.ParsePatterns(texts) }

// ParsePatterns parses patterns that use the built-in groups and those of c.
func (c Config) ParsePatterns(texts []string) ([]Pattern, error) {
	return parsePatterns(texts, c.AllGroups())
}

func parsePatterns(texts []string, groups map[string][]string) ([]Pattern, error) {
	patterns := make([]Pattern, len(texts))
	for i, text := range texts {
		var err error
		if patterns[i], err = ParsePattern(text, groups); err != nil {
			return nil, err
		}
	}
	return patterns, nil
}

// MatchesTool reports whether one of the patterns selects t.
func MatchesTool(patterns []Pattern, t *toolroom.Tool) bool {
	for i := range patterns {
		if patterns[i].Matches(t) {
			return true
		}
	}
	return false
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Matches reports whether the pattern selects the tool.
func (p Pattern) Matches(t *toolroom.Tool) bool {
	return p.matches(t, t.ID.Namespace, t.ID.Name, false)
}

// MatchesAnySpelling is Matches for patterns that restrict: it ignores case and also matches
// the aliases of the tool. So a tool cannot evade a rule because its source names it
// Delete_Repo or offers it under a second name.
func (p Pattern) MatchesAnySpelling(t *toolroom.Tool) bool {
	if p.matches(t, t.ID.Namespace, t.ID.Name, true) {
		return true
	}
	for _, alias := range t.Aliases {
		readings, err := toolroom.Spellings(alias)
		if err != nil {
			continue // the catalog rejects such an alias
		}
		for _, id := range readings {
			if id.Namespace == "" {
				id.Namespace = t.ID.Namespace
			}
			if p.matches(t, id.Namespace, id.Name, true) {
				return true
			}
		}
	}
	return false
}

func (p Pattern) matches(t *toolroom.Tool, namespace, name string, fold bool) bool {
	switch {
	case p.any != nil:
		for _, m := range p.any {
			if m.matches(t, namespace, name, fold) {
				return true
			}
		}
		return false
	case p.hint != "":
		return hasHint(t.Hints, p.hint)
	case p.tag != "":
		return slices.Contains(t.Tags, p.tag)
	case p.kind != "":
		return t.Source == p.kind
	case p.mcp && t.Source != toolroom.SourceMCP:
		return false
	case p.glob == "*":
		return true
	default:
		inNamespace, inName, _ := strings.Cut(p.glob, ":")
		if fold {
			inNamespace, inName = strings.ToLower(inNamespace), strings.ToLower(inName)
			namespace, name = strings.ToLower(namespace), strings.ToLower(name)
		}
		return matchGlob(inNamespace, namespace) && matchGlob(inName, name)
	}
}

// MatchesGlob reports whether name matches one of the globs, in which * stands for any
// characters.
func MatchesGlob(globs []string, name string) bool {
	for _, glob := range globs {
		if matchGlob(glob, name) {
			return true
		}
	}
	return false
}

func hasHint(h toolroom.Hints, name string) bool {
	switch name {
	case "read_only":
		return h.IsReadOnly()
	case "destructive":
		return h.IsDestructive()
	case "idempotent":
		return h.IsIdempotent()
	default:
		return h.IsOpenWorld()
	}
}

// matchGlob reports whether text matches glob, in which * stands for any characters. It
// backtracks at most linearly for each star.
func matchGlob(glob, text string) bool {
	star, mark := -1, 0
	g, t := 0, 0
	for t < len(text) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, t
			g++
		case g < len(glob) && glob[g] == text[t]:
			g++
			t++
		case star >= 0:
			mark++
			g, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

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

package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/source/cli"
)

// Unmatched is a pattern of a rule that selects no tool. It may be a mistake.
type Unmatched struct {
	Key     string `json:"key"` // its place in the config, such as tools.deny[1]
	Pattern string `json:"pattern"`
	// Nearest is the most similar tool id or pattern, or "".
	Nearest string `json:"nearest,omitempty"`
}

func (u Unmatched) String() string { return fmt.Sprintf("%s: %q matches no tool", u.Key, u.Pattern) }

// Hint returns the next step.
func (u Unmatched) Hint() string {
	if u.Nearest != "" {
		return fmt.Sprintf("did you mean %q?", u.Nearest)
	}
	return "list the tools: toolroom search"
}

// Unmatched returns the patterns of the policy that select no tool. Patterns that may
// select tools of sources that have not been listed are left out; [App.Load] lists them.
func (a *App) Unmatched() []Unmatched {
	known := a.knownTools()
	var found []Unmatched
	for _, n := range a.policy.current.Load().policy.NamedPatterns() {
		if u, ok := known.unmatched(n.Pattern); ok {
			u.Key = n.Key
			found = append(found, u)
		}
	}
	return found
}

// checkElevated returns an error if a pattern of an elevation selects no tool.
func (a *App) checkElevated(ctx context.Context, patterns []string) error {
	parsed, err := a.Config().Tools.ParsePatterns(patterns)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%w", err)
	}
	for _, p := range parsed {
		if namespace, _, ok := p.NameGlobs(); ok && a.manager(namespace) != nil {
			_ = a.Load(ctx, namespace) // a source that fails may have the tool
		}
		if u, ok := a.knownTools().unmatched(p); ok {
			return toolroom.Errorf(toolroom.CodeToolNotFound, "%q matches no tool", u.Pattern).WithHint("%s", u.Hint())
		}
	}
	return nil
}

// knownTools holds the tools of a room for comparison with patterns.
type knownTools struct {
	tools []toolroom.Tool
	// open are the namespaces that may have further tools.
	open       []string
	namespaces map[string]bool
	ambient    bool
}

func (a *App) knownTools() knownTools {
	k := knownTools{namespaces: map[string]bool{}, ambient: a.Config().CLI.Mode == string(cli.Ambient)}
	for _, e := range a.catalog.All(func(*catalog.Entry) bool { return true }) {
		k.tools = append(k.tools, e.Tool)
		k.namespaces[e.Tool.ID.Namespace] = true
	}
	for _, m := range a.allManagers() {
		if s := m.status(); !s.Listed || s.Stale || a.definitions.count(m.name) > 0 {
			k.open = append(k.open, m.name)
		}
	}
	return k
}

// unmatched reports whether a pattern selects no tool. It reports false if tools that are
// not listed yet might match.
func (k knownTools) unmatched(p policy.Pattern) (Unmatched, bool) {
	namespace, name, ok := p.NameGlobs()
	if !ok || p.MatchesAny(k.tools) {
		return Unmatched{}, false
	}
	mayBe := func(open string) bool { return policy.MatchesGlob([]string{namespace}, open) }
	if slices.ContainsFunc(k.open, mayBe) {
		return Unmatched{}, false
	}
	if !k.namespaces[namespace] {
		// A rule may be made for a pack that is turned off, or for a program.
		if _, own := reserved.Reason(namespace); own || namespace == "git" {
			return Unmatched{}, false
		}
		if _, err := exec.LookPath(namespace); k.ambient && err == nil {
			return Unmatched{}, false
		}
	}
	return Unmatched{Pattern: p.String(), Nearest: k.nearest(namespace, name)}, true
}

func (k knownTools) nearest(namespace, name string) string {
	if !k.namespaces[namespace] {
		near, ok := nearest.Of(namespace, slices.Sorted(maps.Keys(k.namespaces)))
		if !ok {
			return ""
		}
		if strings.Contains(name, "*") {
			return near + ":" + name
		}
		return cmp.Or(k.nearest(near, name), near+":*")
	}
	var names []string
	for _, t := range k.tools {
		if t.ID.Namespace == namespace {
			if t.ID.Name == name {
				return t.ID.Unversioned().String()
			}
			names = append(names, t.ID.Name)
		}
	}
	if near, ok := nearest.Of(strings.ReplaceAll(name, "*", ""), names); ok {
		return namespace + ":" + near
	}
	return ""
}

package code

import (
	"context"

	"github.com/toolroom/toolroom/internal/pattern"
)

// namespaceMention matches a namespace in a program: tools.github.x, cli("git"),
// mcp["github"], or the id in call_tool("github:create_issue").
var namespaceMention = pattern.Lazy(`\b(?:tools|mcp|cli)(?:\.|\[["']|\(["'])([\pL_][\pL\pN_-]*)|\b(?:call_tool|run)\(\s*["']([\pL_][\pL\pN_-]*):`)

// discoverSources lists the tools of the sources that a program mentions and that have not
// been listed yet, because a program gets its tools before it runs. A source that cannot be
// listed has no tools; a call of one reports the reason.
func (s *Service) discoverSources(ctx context.Context, text string) {
	if s.o.Runner.Discover == nil {
		return
	}
	known := map[string]bool{}
	for namespace := range s.o.Catalog.Namespaces(nil) {
		known[identifier(namespace)] = true
	}
	for _, m := range namespaceMention().FindAllStringSubmatch(text, maxUnknown) {
		namespace := m[1] + m[2]
		if id := identifier(namespace); !known[id] {
			known[id] = true
			_ = s.o.Runner.Discover(ctx, namespace+":any")
		}
	}
}

package code

import (
	"context"

	"github.com/toolroom/toolroom/internal/pattern"
)

// spoken matches a namespace in a program: tools.github.x, cli("git"), mcp["github"], or
// the id in call_tool("github:create_issue").
var spoken = pattern.Lazy(`\b(?:tools|mcp|cli)(?:\.|\[["']|\(["'])([\pL_][\pL\pN_-]*)|\b(?:call_tool|run)\(\s*["']([\pL_][\pL\pN_-]*):`)

// discover lists the sources that a program names and that were not listed yet, because a
// program learns its tools before it runs. A source that cannot be listed has no tools;
// calling one reports the reason.
func (s *Service) discover(ctx context.Context, text string) {
	if s.o.Runner.Discover == nil {
		return
	}
	known := map[string]bool{}
	for namespace := range s.o.Catalog.Namespaces(nil) {
		known[identifier(namespace)] = true
	}
	for _, m := range spoken().FindAllStringSubmatch(text, maxUnknown) {
		namespace := m[1] + m[2]
		if id := identifier(namespace); !known[id] {
			known[id] = true
			_ = s.o.Runner.Discover(ctx, namespace+":any")
		}
	}
}

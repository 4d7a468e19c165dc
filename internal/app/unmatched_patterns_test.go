package app_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/policy"
)

// Sources write tags as people read them, and so do rules.
func TestARuleMatchesATagAsItsSourceWritesIt(t *testing.T) {
	t.Parallel()
	r := openWith(t, `
tools: {deny: ["tag:Not Safe"]}
sources:
  shop: {http: {base_url: "http://127.0.0.1:1", tools: [{name: drop, tags: ["Not Safe"]}, {name: look}]}}
`, app.Options{})
	for name, want := range map[string]toolroom.Status{"shop:drop": toolroom.StatusDenied, "shop:look": toolroom.StatusError} {
		if got := r.Run(t.Context(), toolroom.Call{Tool: name}); got.Status != want {
			t.Errorf("%s: %s, %v", name, got.Status, got.Error)
		}
	}
}

func TestPatternsThatMatchNoToolAreKnownOnceTheirSourcesAreListed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := openWith(t, `
tools:
  deny: ["files:wriet", "files:*", "filess:*", "group:fs", "effect:send", "*:delete_*", "gone:it", "browser.*"]
  agents: {fast: {profile: minimal, confirm: ["files.Write", "notes:grpe"]}}
  hooks: [{tool: "files:wrote", action: log}]
  groups: {mine: ["files.*"]}
sources:
  gone: {mcp: {command: /nonexistent/server}}
  git: {cli: {command: git}}
`, app.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Workspace: t.TempDir()})
	var got []string
	for _, u := range r.Unmatched() {
		got = append(got, fmt.Sprintf("%s %s -> %s", u.Key, u.Pattern, u.Nearest))
	}
	want := []string{
		"tools.deny[0] files:wriet -> files:write", "tools.deny[2] filess:* -> files:*", "tools.agents.fast.confirm[1] notes:grpe -> ",
		"tools.hooks[0].tool files:wrote -> files:write",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Only doctor and the log know why the built-in git tools are missing.
	if !strings.Contains(log.String(), "the built-in git tools are off") {
		t.Errorf("the log says %s", &log)
	}

	for name, ok := range map[string]bool{"files:write": true, "files.*": true, "group:fs": true, "group:mine": true, "files:wriet": false, "nosuch:tool": false} {
		_, err := r.Elevate(t.Context(), policy.Elevation{Subject: "ann", By: "me", Tools: []string{name}}, 0)
		if ok != (err == nil) || err != nil && toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

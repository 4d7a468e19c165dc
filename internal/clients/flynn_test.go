package clients

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/policy"
)

func TestTheYAMLOfFlynnIsReadAsItStands(t *testing.T) {
	t.Parallel()
	// The first part is the example of its page on tools.
	got, left, err := flynn([]byte(`
tools:
  profile: messaging
  allow: []
  deny: ["browser.*"]
  # Per-agent overrides
  agents:
    fast:
      profile: minimal
      allow: []
      deny: []
  # Per-provider overrides
  providers:
    ollama:
      profile: messaging
      allow: []
      deny: ["web.search"]
  sensitive_tools: [shell.exec]
  sensitive_mode: confirm_without_elevation
  immutable_denylist:
    - {tool: shell.exec, args_pattern: "rm -rf", reason: never}
  autonomy_level: conservative
  max_output_bytes: 51200
hooks: {silent: ["file.*"], confirm: [process.kill], log: ["web.*"]}
server: {port: 18800}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Config{
		Rules:     policy.Rules{Profile: "messaging", Allow: []string{}, Deny: []string{"browser.*"}, Autonomy: policy.Conservative},
		Agents:    map[string]policy.Rules{"fast": {Profile: "minimal", Allow: []string{}, Deny: []string{}}},
		Providers: map[string]policy.Rules{"ollama": {Profile: "messaging", Allow: []string{}, Deny: []string{"web.search"}}},
		Sensitive: policy.Sensitive{Tools: []string{"shell.exec"}, Mode: policy.ConfirmWithoutElevation},
		Denylist:  []policy.Denial{{Tool: "shell.exec", ArgsPattern: "rm -rf", Reason: "never"}},
		Hooks:     []policy.Hook{{Tool: "process.kill", Action: "confirm"}, {Tool: "web.*", Action: "log"}, {Tool: "file.*", Action: "silent"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"server", "tools.max_output_bytes"}, left); diff != "" {
		t.Errorf("left out: -want +got\n%s", diff)
	}
}

func TestAFileThatIsNoPolicyOfFlynnIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "the section tools is missing",
		"tools: [a]":                           "",
		"server: {}":                           "the section tools is missing",
		"tools: {profile: mesaging}":           "did you mean messaging?",
		"tools: {deny: [\"group:memroy\"]}":    "did you mean memory?",
		"tools: {deny: browser}":               "",
		"tools: {hooks: {confirm: [nothing]}}": "no namespace",
		"{":                                    "",
	} {
		if _, _, err := flynn([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestHooksOfFlynnMayStandInAListWhoseOrderStays(t *testing.T) {
	t.Parallel()
	got, _, err := flynn([]byte(`
tools:
  hooks:
    - {tool: "file.read", action: silent}
    - {tool: "file.*", action: confirm}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Hook{{Tool: "file.read", Action: policy.ActionSilent}, {Tool: "file.*", Action: policy.ActionConfirm}}
	if diff := cmp.Diff(want, got.Hooks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, _, err := flynn([]byte("tools: {hooks: {confrim: [file.read]}}")); err == nil || !strings.Contains(err.Error(), `"confrim"`) {
		t.Errorf("a hook of no kind: %v", err)
	}
}

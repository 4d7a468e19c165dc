package policy

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// A mistaken name is what to correct, whichever rule of which agent denies then.
func TestADenialOfAnUnknownAgentNamesTheKnownOne(t *testing.T) {
	t.Parallel()
	for name, deny := range map[string][]string{
		"a tool":                          {"x.*"},
		"a tool, beside a rule on effect": {"x.*", "effect:file:/etc/**"},
		"an effect":                       {"effect:file:/etc/**"},
	} {
		p := compile(t, Config{Agents: map[string]Rules{"fast": {Deny: deny}}})
		d := p.Decide(t.Context(), Request{
			Tool: tool("x:y"), Who: toolroom.Identity{Subject: "bob", Agent: "fsat"},
			Call: &Context{Effects: []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: "/etc/passwd"}}},
		})
		if d.Effect != toolroom.VerdictDeny || !strings.Contains(d.Hint, "fast") {
			t.Errorf("%s: %s, hint %q", name, d.Effect, d.Hint)
		}
	}
}

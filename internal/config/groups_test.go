package config_test

import (
	"strings"
	"testing"
)

// Groups, built in or of the config, may be named wherever a key holds patterns of tools.
func TestEveryKeyWithPatternsAcceptsGroups(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"group:fs", "group:mine"} {
		for name, text := range map[string]string{
			"expose":            `expose: {direct: ["GROUP"], search: ["GROUP"], hidden: ["GROUP"]}`,
			"sets":              `sets: {a: {allow: ["GROUP"], expose: {direct: ["GROUP"], search: ["GROUP"], hidden: ["GROUP"]}}}`,
			"policy.inside":     `policy: {inside: ["GROUP"]}`,
			"policy.spending":   `policy: {spending: [{match: "GROUP", unit: EUR, deny_above: 1}]}`,
			"approvals":         `approvals: {rules: [{match: "GROUP"}], writes: [{match: "GROUP", root: .}]}`,
			"receipts.must":     `receipts: {must: ["GROUP"]}`,
			"limits.cache":      `limits: {cache: {tools: ["GROUP"]}}`,
			"secrets.scopes":    `secrets: {scopes: {a: {tools: ["GROUP"]}}}`,
			"server.auth.oauth": `server: {url: "https://a.example", auth: {oauth: {issuers: ["https://b.example"], scopes: {c: ["GROUP"]}}}}`,
		} {
			text = strings.ReplaceAll(text, "GROUP", group) + "\ntools: {groups: {mine: [\"a.*\"]}}\n"
			if got := mistakes(t, text); got != "" {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

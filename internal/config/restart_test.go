package config

import (
	"slices"
	"testing"
)

func TestKeysThatNeedARestartAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                                nil,
		"expose: {mode: search}":                          nil,
		"limits: {timeout: 5s}":                           nil,
		"approvals: {ttl: 5s, session: 1h}":               nil,
		"tools: {deny: [\"a:*\"]}":                        nil,
		"egress: {mode: closed}":                          nil,
		"receipts: {keep: 24h}":                           nil,
		"server: {listen: \"127.0.0.1:1\"}":               {"server.listen"},
		"store: {url: \"sqlite:b.db\"}":                   {"store.url"},
		"receipts: {reserve: 5}":                          {"receipts.reserve"},
		"results: {entries: 5}":                           {"results.entries"},
		"code: {parallel: 1}\nserver: {mcp: {sse: true}}": {"server.mcp", "code.parallel"},
	} {
		c, err := Parse("toolroom.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.NeedsRestart(Default()); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestChangedKeysAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                         nil,
		"tools: {deny: [\"a:*\"]}": {"tools.deny"},
		"policy: {taint: deny}":    {"policy.taint"},
		"limits: {timeout: 5s}":    {"limits.timeout"},
		"sources: {a: {mcp: {url: \"http://a\"}}}": {"sources.a"},
		"tools: {agents: {a: {deny: [\"b:*\"]}}}":  {"tools.agents"},
	} {
		c, err := Parse("toolroom.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Changed(Default()); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

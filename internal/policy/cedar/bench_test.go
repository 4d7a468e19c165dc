package cedar

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// hundred is a policy of a hundred rules: fifty in layers, fifty written, ten of
// which ask about arguments of the tool called.
func hundred(b *testing.B) *policy.Policy {
	b.Helper()
	var c policy.Config
	c.Profile = policy.ProfileMinimal
	for i := range 25 {
		c.Deny = append(c.Deny, fmt.Sprintf("server%d:delete_*", i))
		c.Allow = append(c.Allow, fmt.Sprintf("server%d.*", i))
	}
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "forbid(principal in Team::\"team%d\", action, resource in Namespace::\"server%d\");\n", i, i)
		fmt.Fprintf(&text, "forbid(principal, action, resource) when { resource.id == \"server%d:drop\" && context.taint.contains(\"untrusted\") };\n", i)
	}
	for i := range 10 {
		fmt.Fprintf(&text, "forbid(principal, action, resource in Namespace::\"server24\") when { context.arguments has path && context.arguments.path like \"/secret%d/*\" };\n", i)
	}
	rules, err := Compile([]Text{{Name: "bench.cedar", Body: []byte(text.String())}}, Options{Groups: c.GroupPatterns()})
	if err != nil {
		b.Fatal(err)
	}
	p, err := policy.Compile(c)
	if err != nil {
		b.Fatal(err)
	}
	return p.With(policy.Parts{TextRules: rules})
}

func BenchmarkDecide(b *testing.B) {
	p := hundred(b)
	who := toolroom.Identity{Subject: "ann", Agent: "fast", Groups: []string{"dev"}}
	schema := []byte(`{"type":"object","properties":{"path":{"type":"string"},"line":{"type":"integer"}}}`)
	arguments := map[string]any{"path": "/srv/docs/a.txt", "line": "12"}
	call := &policy.Context{Arguments: func() (any, error) { return arguments, nil }, Surface: "mcp"}
	for name, id := range map[string]string{"arguments": "server24:read", "settled": "server3:read"} {
		b.Run(name, func(b *testing.B) {
			t := &toolroom.Tool{ID: toolroom.MustParseID(id), InputSchema: schema}
			b.ReportAllocs()
			for b.Loop() {
				if d := p.Decide(b.Context(), policy.Request{Tool: t, Who: who, Call: call}); d.Effect != toolroom.VerdictAllow {
					b.Fatal(d)
				}
			}
		})
	}
	b.Run("first", func(b *testing.B) {
		t := toolroom.Tool{ID: toolroom.MustParseID("server24:read"), InputSchema: schema}
		b.ReportAllocs()
		for b.Loop() {
			fresh := t // another tool, of which nothing is known yet
			if d := p.Decide(b.Context(), policy.Request{Tool: &fresh, Who: who, Call: call}); d.Effect != toolroom.VerdictAllow {
				b.Fatal(d)
			}
		}
	})
}

func BenchmarkVisibleOfFiveThousand(b *testing.B) {
	p := hundred(b)
	tools := make([]*toolroom.Tool, 5000)
	for i := range tools {
		tools[i] = &toolroom.Tool{ID: toolroom.ID{Namespace: fmt.Sprintf("server%d", i%25), Name: fmt.Sprintf("tool%d", i)}}
	}
	who := toolroom.Identity{Subject: "ann", Groups: []string{"dev"}}
	list := func() {
		for _, t := range tools {
			if d := p.Decide(b.Context(), policy.Request{Tool: t, Who: who}); d.Effect != toolroom.VerdictAllow {
				b.Fatal(d)
			}
		}
	}
	list() // the first time is that of Decide/first, for each tool
	b.ReportAllocs()
	for b.Loop() {
		list()
	}
}

package policy

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestPatternsSelectTools(t *testing.T) {
	t.Parallel()
	mcp := tool("github:create_issue")
	mcp.Source = toolroom.SourceMCP
	local := tool("github:create_issue")
	local.Source = toolroom.SourceGo
	local.Tags = []string{"beta"}
	local.Hints.ReadOnly = truth()
	dotted := tool("web:search.news")
	nested := tool("a.b:c")
	for _, tt := range []struct {
		pattern string
		tool    *toolroom.Tool
		want    bool
	}{
		{"github:create_issue", mcp, true},
		{"github.create_issue", mcp, true},
		{"github:create", mcp, false},
		{"mcp:github:create_issue", mcp, true},
		{"mcp:github/create_issue", mcp, true},
		{"mcp:github:*", mcp, true},
		{"mcp:github:*", local, false},
		{"mcp:git*:*_issue", mcp, true},
		{"mcp:gitlab:*", mcp, false},
		{"*", mcp, true},
		{"*:*", mcp, true},
		{"*:create_*", mcp, true},
		{"*.create_*", mcp, true},
		{"github.*", local, true},
		{"Github.*", local, false},
		{"git.*", local, false},
		{"web.search.news", dotted, true},
		{"web.search", dotted, false},
		{"web.*", dotted, true},
		{"a.b:*", nested, true},
		{"a.*", nested, false},
		{"group:web", dotted, true},
		{"group:fs", dotted, false},
		{"group:empty", dotted, false},
		{"hint:read_only", local, true},
		{"hint:readOnly", local, true},
		{"hint:readOnly", mcp, false},
		{"hint:openWorld", mcp, true},
		{"hint:read_only", mcp, false},
		{"hint:destructive", mcp, true},
		{"hint:destructive", local, false},
		{"hint:idempotent", mcp, false},
		{"hint:open_world", mcp, true},
		{"tag:beta", local, true},
		{"tag:Beta", local, true},
		{"tag:bet", local, false},
		{"source:mcp", mcp, true},
		{"source:mcp", local, false},
	} {
		t.Run(tt.pattern, func(t *testing.T) {
			t.Parallel()
			groups := builtinGroups()
			groups["empty"] = nil
			p, err := ParsePattern(tt.pattern, groups)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Matches(tt.tool); got != tt.want {
				t.Errorf("%s matches %s of %q: %v, want %v", p, tt.tool.ID, tt.tool.Source, got, tt.want)
			}
			if p.String() != tt.pattern {
				t.Errorf("it prints as %q", p)
			}
		})
	}
}

func TestPatternsThatCanMatchNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "read", "a b.c", "a.b@1", "a.ä", "a:b:c", "mcp:a:b:c", ":x", "x:", ".x", "x.", "mcp:x:", "mcp::x", "mcp:*/",
		"group:", "group:nope", "hint:", "hint:nope", "tag:", "source:", "source:nope", "a.?", "a.[bc]", "a.\xff",
	} {
		if p, err := ParsePattern(text, builtinGroups()); err == nil {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

func TestAGroupCannotHoldAGroup(t *testing.T) {
	t.Parallel()
	_, err := ParsePattern("group:outer", map[string][]string{"outer": {"group:outer"}})
	if err == nil || !strings.HasPrefix(err.Error(), "group outer: ") {
		t.Errorf("got %v, want an error that names the group", err)
	}
}

func TestListsOfPatternsMatchWhenOneDoes(t *testing.T) {
	t.Parallel()
	patterns, err := ParsePatterns([]string{"web.*", "group:fs"})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"web:fetch": true, "file:read": true, "shell:exec": false} {
		if MatchesTool(patterns, tool(id)) != want {
			t.Errorf("%s: want %v", id, want)
		}
	}
	if _, err := ParsePatterns([]string{"web.*", "nonsense"}); err == nil {
		t.Error("a mistake is swallowed")
	}
	if !MatchesGlob([]string{"a*", "b"}, "abc") || MatchesGlob([]string{"a*", "b"}, "bc") || MatchesGlob(nil, "a") {
		t.Error("MatchAny is wrong")
	}
}

// globByDefinition is what a glob means, said as simply as possible.
func globByDefinition(glob, text string) bool {
	switch {
	case glob == "":
		return text == ""
	case glob[0] == '*':
		return globByDefinition(glob[1:], text) || text != "" && globByDefinition(glob, text[1:])
	default:
		return text != "" && text[0] == glob[0] && globByDefinition(glob[1:], text[1:])
	}
}

func FuzzMatchGlob(f *testing.F) {
	for _, s := range [][2]string{{"", ""}, {"*", ""}, {"a*", "abc"}, {"*c", "abc"}, {"a*c*", "abcabc"}, {"**", "x"}, {"*ab", "aab"}, {"a", ""}, {"a*b*a", "ababa"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, glob, text string) {
		// The definition takes exponential time.
		if len(glob) > 12 || len(text) > 16 {
			t.Skip()
		}
		if got, want := matchGlob(glob, text), globByDefinition(glob, text); got != want {
			t.Fatalf("matchGlob(%q, %q) = %v, want %v", glob, text, got, want)
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{"a.b", "mcp:a:*", "group:fs", "hint:destructive", "*", "a:b:c"} {
		f.Add(s)
	}
	some := tool("a:b")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text, builtinGroups())
		if err != nil {
			return
		}
		p.Matches(some)
		if p.String() != text {
			t.Fatalf("%q prints as %q", text, p)
		}
	})
}

func TestTheStrongestIsolationLayerCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]toolroom.Isolation{
		"": toolroom.IsolationNone, "none": toolroom.IsolationNone, "paper+cgroup": toolroom.IsolationNone, "seccomp": toolroom.IsolationProcess, "landlock+seccomp": toolroom.IsolationProcess,
		"ns+net+landlock+seccomp": toolroom.IsolationContainer, "wasm": toolroom.IsolationContainer, "docker(runc)": toolroom.IsolationContainer, "docker(runc)+seccomp": toolroom.IsolationContainer,
		"gvisor(systrap)+seccomp": toolroom.IsolationGVisor, "docker+gvisor(runsc)+seccomp": toolroom.IsolationGVisor, "docker(runsc)": toolroom.IsolationContainer, "containerd+kata+seccomp": toolroom.IsolationVM, "kata": toolroom.IsolationVM, "ns+firecracker": toolroom.IsolationVM,
	} {
		got := IsolationOf(text)
		if !AtLeast(got, want) || !AtLeast(want, got) {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

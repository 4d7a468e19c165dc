package effects_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

func of(t *testing.T, arguments map[string]any) []string {
	t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		t.Fatal(err)
	}
	no, yes := false, true
	tool := &toolroom.Tool{Source: toolroom.SourceGo, Hints: toolroom.Hints{ReadOnly: &yes, OpenWorld: &no}}
	return lines(effects.Of(tool, text, nil, place))
}

func TestValuesAreJudgedByWhatTheyLookLike(t *testing.T) {
	t.Parallel()
	has := func(list []string, want string) bool {
		return slices.ContainsFunc(list, func(e string) bool { return e == want || strings.HasPrefix(e, want+" ") })
	}
	for value, want := range map[string]string{
		"/etc/passwd": "file:/etc/passwd", " /etc/passwd ": "file:/etc/passwd", "/etc/shadow\n/etc/passwd": "file:/etc/passwd", "../../../etc/passwd": "file:/etc/passwd",
		"docs/secret.txt": "file:/nowhere/work/docs/secret.txt", "file:/etc/passwd": "file:/etc/passwd", "file:///etc/passwd": "file:/etc/passwd",
		"https://evil.example/x": "host:evil.example:443", "send it to http://evil.example:8080/x, please": "host:evil.example:8080", "(see:https://evil.example)": "host:evil.example:443",
		"ftp://evil.example": "host:evil.example:21", "evil.example": "host:evil.example:443", "evil.example:22": "host:evil.example:22", "10.0.0.1": "host:10.0.0.1:443",
		"[::1]:80": "host:[::1]:80", "localhost:5432": "host:localhost:5432", "evil.example/path": "host:evil.example:443",
		"rm x": "command:rm x", "rm -rf /": "command:rm -rf /", "cat /etc/passwd": "command:cat /etc/passwd", "echo hi | sh": "command:sh", "find . -delete": "command:find . -delete",
		"/bin/rm x": "command:/bin/rm x", "true && curl evil.example": "command:curl evil.example",
	} {
		for _, name := range []string{"doc", "input", "from", "image", "root", "q", "x1"} {
			for shape, arguments := range map[string]map[string]any{
				"plain": {name: value}, "in a list": {name: []any{"a", value}}, "deep": {"options": map[string]any{name: value}},
			} {
				if got := of(t, arguments); !has(got, want) {
					t.Errorf("%s, %s=%q: %q is not in %q", shape, name, value, want, got)
				}
			}
		}
	}
	for _, name := range []string{"cmdline", "script", "shell", "exec", "run", "commandToRun", "program", "shellCommand", "cmd_line", "runCommand", "executable"} {
		if got := of(t, map[string]any{name: "mytool x"}); !has(got, "command:mytool x") {
			t.Errorf("%s: %q", name, got)
		}
		if got := of(t, map[string]any{name: "mytool", "args": []any{"x"}}); !has(got, "command:mytool x") {
			t.Errorf("%s with args: %q", name, got)
		}
	}
	for _, name := range []string{"server", "address", "site", "peer"} {
		if got := of(t, map[string]any{name: "evil.example"}); !has(got, "host:evil.example:443") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOrdinaryTextsLookLikeNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"hello", "find me a hotel in Rome", "make it short", "cat pictures", "what is the date", "3.14", "1.2.3", "notes.txt", "2026-11-22", "12:30",
		"bob@example.com", "a sentence. And another one: done", "sort by name", "true", "it costs 5 $", "",
	} {
		if got := of(t, map[string]any{"q": value}); len(got) > 0 {
			t.Errorf("%q: %q", value, got)
		}
	}
}

func TestATextWithManyAddressesMayNameAny(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 1000 {
		text.WriteString(" https://h" + strings.Repeat("x", i%60) + ".example/" + strings.Repeat("y", i/60))
	}
	got := of(t, map[string]any{"body": text.String()})
	if !slices.Contains(got, "host:") || len(got) > 200 {
		t.Errorf("%d effects: %.5q", len(got), got)
	}
}

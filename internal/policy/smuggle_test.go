package policy

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

func arguments(text string) *Context {
	return &Context{Arguments: func() (any, error) { return jsonx.Decode([]byte(text), jsonx.Limits{}) }}
}

func TestNoSpellingOfArgumentsGetsRoundTheDenylist(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{Denylist: []Denial{
		{Tool: "shell.exec", ArgsPattern: `git push`, Reason: "ask first"},
		{Tool: "shell.exec", ArgsPattern: `"force":true`},
		{Tool: "shell.exec", ArgsPattern: `"port":22[,}]`},
		{Tool: "shell.exec", ArgsPattern: `^1025$`},
	}})
	shell := tool("shell:exec")
	for name, text := range map[string]string{
		"as it stands":                `{"command":"git push"}`,
		"two spaces":                  `{"command":"git  push"}`,
		"a tab and a line":            `{"command":"git\t\npush"}`,
		"escaped":                     `{"command":"\u0067it\u0020push"}`,
		"a space that does not break": `{"command":"git\u00a0push"}`,
		"an ideographic space":        `{"command":"git\u3000push"}`,
		"full-width letters":          `{"command":"\uff47\uff49\uff54 push"}`,
		"mathematical letters":        `{"command":"\ud835\udc20it push"}`,
		"a zero-width space":          `{"command":"gi\u200bt push"}`,
		"a soft hyphen":               `{"command":"gi\u00adt push"}`,
		"a right-to-left override":    `{"command":"\u202egit push"}`,
		"a variation selector":        `{"command":"g\ufe0fit push"}`,
		"a control character":         `{"command":"g\u0001it push"}`,
		"as a list of words":          `{"args":["git","push","origin"]}`,
		"deep within":                 `{"a":{"b":[{"c":"x; git push"}]}}`,
		"as a name":                   `{"git push":1}`,
		"in the whole":                `{ "force" : true }`,
		"a number with a fraction":    `{"port":22.0}`,
		"a number with an exponent":   `{"a":[{"port":2.2E1,"z":1}]}`,
		"a number alone":              `{"a":[102.50e1]}`,
		"a number in a long text":     `{"port":22.0,"z":"` + strings.Repeat("\u2028", 800_000) + `"}`,
		"beside a huge number":        `{"port":22.0,"z":1e2000000}`,
		"a name twice":                `{"command":"ls","command":"git push"}`,
		"a name in other case":        `{"command":"ls","Command":"x"}`,
		"no object":                   `["ls"]`,
		"no JSON":                     `{"command":`,
	} {
		if got := decideCall(p, shell, toolroom.Identity{}, arguments(text)); got.Effect != toolroom.VerdictDeny {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, text := range []string{`{"command":"git status"}`, `{"command":"gitpush"}`, `{"force":"true"}`, `{"port":22.5}`, `{}`} {
		if got := decideCall(p, shell, toolroom.Identity{}, arguments(text)); got.Effect != toolroom.VerdictAllow {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestNoNameStandsForAnother(t *testing.T) {
	t.Parallel()
	reader := &toolroom.Tool{ID: toolroom.MustParseID("file:read"), InputSchema: []byte(`{"type":"object","properties":{"path":{"type":"string"},"ssh_key":{}}}`)}
	p := compile(t, Config{Denylist: []Denial{{Tool: "*", ArgsPattern: "never there"}}})
	for text, says := range map[string]string{
		`{"PATH":"/etc/shadow"}`:            `"PATH" is not "path"`,
		`{"path":"a","Path":"/etc/shadow"}`: `"Path" and "path"`,
		`{"\uff50ath":"x"}`:                 `may be taken for it`,
		`{"pa\u200bth":"x"}`:                `may be taken for it`,
		`{"\u017fsh_key":"x"}`:              `is not "ssh_key"`,
		`{"o":{"a":1,"A":2}}`:               `"A" and "a"`,
		`{"l":[{"\u212a":1,"k":2}]}`:        `may be taken for one another`,
	} {
		got := decideCall(p, reader, toolroom.Identity{}, arguments(text))
		if got.Effect != toolroom.VerdictDeny || !strings.Contains(got.Rule, says) {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for _, text := range []string{`{"path":"a"}`, `{"paths":"a"}`, `{"path":"a","o":{"path":"b"}}`, `{"pаth":"cyrillic"}`} {
		if got := decideCall(p, reader, toolroom.Identity{}, arguments(text)); got.Effect != toolroom.VerdictAllow {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestNoNameOfAToolGetsRoundADeny(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{Rules: Rules{Profile: "full", Allow: []string{"github.*"}, Deny: []string{"GitHub.delete_repo", "group:fs", "page.visit", "mcp:db:drop"}}})
	for name, tool := range map[string]*toolroom.Tool{
		"as it stands":            {ID: toolroom.MustParseID("GitHub:delete_repo")},
		"in other case":           {ID: toolroom.MustParseID("github:Delete_Repo")},
		"of a version":            {ID: toolroom.MustParseID("github:delete_repo@3")},
		"of a group, in case":     {ID: toolroom.MustParseID("File:READ")},
		"by an alias":             {ID: toolroom.MustParseID("browser:open"), Aliases: []string{"page:visit"}},
		"by an alias with a dot":  {ID: toolroom.MustParseID("browser:open"), Aliases: []string{"Page.Visit"}},
		"by a bare alias":         {ID: toolroom.MustParseID("page:open"), Aliases: []string{"visit"}},
		"by the name for a model": {ID: toolroom.MustParseID("x:y"), Aliases: []string{"github__delete_repo"}},
		"by the name of a server": {ID: toolroom.MustParseID("x:y"), Aliases: []string{"mcp:github:delete_repo"}},
		"of a server, in case":    {ID: toolroom.MustParseID("DB:Drop"), Source: toolroom.SourceMCP},
	} {
		if got := decide(p, tool, toolroom.Identity{}); got.Effect != toolroom.VerdictDeny {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// What permits is taken as it is written.
	p = compile(t, Config{Rules: Rules{Profile: "minimal", Allow: []string{"github.read"}}})
	for _, tool := range []*toolroom.Tool{
		{ID: toolroom.MustParseID("GitHub:read")},
		{ID: toolroom.MustParseID("evil:tool"), Aliases: []string{"github:read"}},
	} {
		if got := decide(p, tool, toolroom.Identity{}); got.Effect != toolroom.VerdictDeny {
			t.Errorf("%s is permitted: %+v", tool.ID, got)
		}
	}
}

func FuzzArgumentsAreJudgedOrRefused(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"git push"}`, `{"a":1,"A":2}`, `{"a":[[["git"],"push"]]}`, `{"\ud835\udc20":1}`, `1e999`} {
		f.Add(seed)
	}
	p := compile(f, Config{Denylist: []Denial{{Tool: "*", ArgsPattern: "git push"}}})
	shell := tool("shell:exec")
	f.Fuzz(func(t *testing.T, text string) {
		got := decideCall(p, shell, toolroom.Identity{}, arguments(text))
		if got.Effect == toolroom.VerdictAllow && strings.Contains(text, "git push") {
			t.Errorf("%q is allowed", text)
		}
		if _, err := jsonx.Decode([]byte(text), jsonx.Limits{}); err != nil && got.Effect != toolroom.VerdictDeny {
			t.Errorf("%q cannot be read and is %s", text, got.Effect)
		}
	})
}

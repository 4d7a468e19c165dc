package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/secret"
)

// roomOf opens a room with a config, and with secrets in its file.
func roomOf(t *testing.T, config string, values map[secret.Ref]string) *app.App {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "toolroom.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file, Environ: []string{"PATH=" + os.Getenv("PATH"), "AMBIENT=ambient-secret-1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for ref, value := range values {
		if err := r.Parts().Secrets.Set(t.Context(), ref, value); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// mirror is a service that answers with the token that it was sent.
func mirror(t *testing.T) (url string, seen *atomic.Value) {
	t.Helper()
	seen = &atomic.Value{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"you sent":"`+r.Header.Get("Authorization")+`"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

func TestEachCallerSendsTheirOwnTokenAndNobodyReadsIt(t *testing.T) {
	t.Parallel()
	url, seen := mirror(t)
	ref := secret.Ref{Scope: "api", Name: "token"}
	r := roomOf(t, `
secrets: {scopes: {api: {values: own, callers: [ann, bob, "group:ops"]}}}
limits: {cache: {tools: ["api:*"]}}
sources:
  api: {http: {base_url: "`+url+`", headers: {Authorization: "secret://api/token"}, tools: [{name: whoami, hints: {read_only: true}}]}}
`, map[secret.Ref]string{ref.Of("ann"): "token-of-ann", ref.Of("bob"): "token-of-bob", ref.Of("eve"): "token-of-eve"})
	for _, c := range []struct {
		who  toolroom.Identity
		sent string
		code toolroom.Code
	}{
		{toolroom.Identity{Subject: "ann"}, "token-of-ann", ""},
		{toolroom.Identity{Subject: "bob"}, "token-of-bob", ""},
		{toolroom.Identity{Subject: "bob"}, "", ""}, // from the cache, which is kept apart by identity
		{toolroom.Identity{Subject: "eve"}, "", toolroom.CodeDenied},
		{toolroom.Identity{Subject: "olga", Groups: []string{"ops"}}, "", toolroom.CodeNotFound},
		{toolroom.Identity{}, "", toolroom.CodeDenied},
	} {
		seen.Store("")
		result := r.Run(t.Context(), toolroom.Call{Tool: "api:whoami", Identity: c.who})
		if seen.Load() != c.sent || toolroom.CodeOf(result.Err()) != c.code {
			t.Errorf("%s: sent %q, %v", c.who, seen.Load(), result.Error)
		}
		if c.code == "" && string(result.Value) != `{"you sent":"[secret api/token]"}` {
			t.Errorf("%s: got %s", c.who, result.Value)
		}
		page, err := r.Tools(c.who, catalog.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		listed := false
		for _, tool := range page.Entries {
			listed = listed || tool.ID == "api:whoami"
		}
		if listed != (c.code != toolroom.CodeDenied) {
			t.Errorf("%s: listed %v, and a call is %q", c.who, listed, c.code)
		}
	}
}

func TestASecretIsInTheEnvironmentOfItsProgramAloneAndOnNoCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	peek := filepath.Join(dir, "peek")
	script := "#!/bin/sh\ncase \"$1\" in --help|-h|help) echo 'usage: peek'; exit 0;; esac\nenv | tr '\\n' ' '\ntr '\\0' ' ' < /proc/self/cmdline; tr '\\0' ' ' < /proc/$$/cmdline\necho done\n"
	if err := os.WriteFile(peek, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r := roomOf(t, `
cli: {mode: ambient}
sources:
  mine:   {cli: {command: `+peek+`, env: {TOKEN: "secret://mine/token"}}}
  others: {cli: {command: `+peek+`}}
`, map[secret.Ref]string{{Scope: "mine", Name: "token"}: "token-of-mine"})
	for name, want := range map[string]bool{"mine": true, "others": false} {
		result := r.Run(t.Context(), toolroom.Call{Tool: name + ":peek", Arguments: toolroom.Args{"_": []string{"x"}}.JSON()})
		text := string(result.Value)
		if !strings.Contains(text, "done") {
			t.Fatalf("%s: %s, %v", name, text, result.Error)
		}
		// The value is redacted: its mark says where it was.
		if got := strings.Count(text, "TOKEN=[secret mine/token]"); got > 0 != want || strings.Count(text, "[secret") != got {
			t.Errorf("%s: %s", name, text)
		}
		if strings.Contains(text, "token-of-mine") || strings.Contains(text, "ambient-secret") {
			t.Errorf("%s sees more than its own: %s", name, text)
		}
	}
}

func TestAToolOutsideTheScopeDoesNotUseItsSecret(t *testing.T) {
	t.Parallel()
	url, seen := mirror(t)
	seen.Store("")
	r := roomOf(t, `
secrets: {scopes: {api: {tools: ["api:read"]}}}
sources:
  api: {http: {base_url: "`+url+`", headers: {Authorization: "secret://api/token"}, tools: [{name: read}, {name: write}]}}
`, map[secret.Ref]string{{Scope: "api", Name: "token"}: "token-of-api"})
	if result := r.Run(t.Context(), toolroom.Call{Tool: "api:write"}); toolroom.CodeOf(result.Err()) != toolroom.CodeDenied || seen.Load() != "" {
		t.Errorf("got %v, sent %q", result.Error, seen.Load())
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "api:read"}); result.Error != nil || seen.Load() != "token-of-api" {
		t.Errorf("got %v, sent %q", result.Error, seen.Load())
	}
	explained, err := r.Explain(t.Context(), "api:write", toolroom.Identity{}, nil)
	if err != nil || !strings.Contains(explained.Rule, "secrets.scopes.api.tools") || len(explained.Steps) != 2 {
		t.Errorf("explained by %+v, %v", explained, err)
	}
}

func TestASkillIsHeldToItsScopesOfSecrets(t *testing.T) {
	t.Parallel()
	url, _ := mirror(t)
	net := `net: [{host: "127.0.0.1"}]`
	r := roomOf(t, `
tools:
  skills:
    docs: {permissions: {tools: ["api.*"], `+net+`, secrets: {scopes: [docs]}}}
    api:  {permissions: {tools: ["api.*"], `+net+`, secrets: {scopes: [api]}}}
sources:
  api: {http: {base_url: "`+url+`", headers: {Authorization: "secret://api/token"}, tools: [{name: read}]}}
`, map[secret.Ref]string{{Scope: "api", Name: "token"}: "token-of-api"})
	for _, skill := range []string{"docs", "api"} {
		who := toolroom.Identity{Skill: skill}
		result := r.Run(t.Context(), toolroom.Call{Tool: "api:read", Identity: who})
		explained, err := r.Explain(t.Context(), "api:read", who, []byte("{}"))
		if err != nil || (result.Error == nil) != (skill == "api") || (explained.Effect == toolroom.VerdictDeny) == (skill == "api") {
			t.Errorf("%s: %v, explained by %+v, %v", skill, result.Error, explained, err)
		}
		if skill == "docs" && explained.Rule != "tools.skills.docs.secrets.scopes: does not include api" {
			t.Errorf("%s: explained by %s", skill, explained.Rule)
		}
	}
}

func TestAReferenceInTheArgumentsOfACallStaysText(t *testing.T) {
	t.Parallel()
	var body atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body.Store(string(text))
	}))
	defer s.Close()
	r := roomOf(t, `sources: {api: {http: {base_url: "`+s.URL+`", tools: [{name: send}]}}}`, map[secret.Ref]string{{Scope: "api", Name: "token"}: "token-of-api"})
	r.Run(t.Context(), toolroom.Call{Tool: "api:send", Arguments: toolroom.Args{"text": "secret://api/token"}.JSON()})
	if got, _ := body.Load().(string); !strings.Contains(got, "secret://api/token") || strings.Contains(got, "token-of-api") {
		t.Errorf("sent %q", got)
	}
}

func TestTheKeyOfTheFileComesFromWhereTheConfigSays(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "toolroom.yaml")
	if err := os.WriteFile(file, []byte("secrets: {key: {env: SECRETS_KEY}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	ref := secret.Ref{Scope: "api", Name: "token"}
	for environ, ok := range map[string]bool{"SECRETS_KEY=" + key: true, "SECRETS_KEY=short": false, "X=": false} {
		r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file, Environ: []string{environ}})
		if ok != (err == nil) || err != nil && strings.Contains(err.Error(), "short") {
			t.Fatalf("%s: %v", environ, err)
		}
		if err != nil {
			continue
		}
		if err := r.Parts().Secrets.Set(t.Context(), ref, "token-of-api"); err != nil {
			t.Error(err)
		}
		r.Close()
		if _, err := os.Stat(filepath.Join(home, "secrets.key")); err == nil {
			t.Error("a key lies beside the file")
		}
	}
}

package config_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/config"
)

func TestSecretsInPlainTextAreFoundAndLifted(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("toolroom.yaml", []byte(`
sources:
  a: {mcp: {command: x, env: {API_KEY: hunter2hunter2, MODE: fast, TOKEN: "env://T", PASSWORD: abc}}}
  b: {mcp: {url: "https://x.example.com", headers: {Authorization: Bearer hunter2hunter2, X-Team: blue}}}
  c: {openapi: {spec: s.json, auth: {key: hunter2hunter2}, headers: {"X-Api-Key": hunter3hunter3, "X_Api_Key": hunter4hunter4}}}
  d: {cli: {command: x, env: {SECRET: "secret://d/x"}}}
  e: {http: {base_url: "https://x.example.com", tools: [{name: t, method: GET, path: /x, query: {token: hunter2hunter2}}]}}
approvals: {webhooks: [{name: w, url: "https://x.example.com", secret: "secret://w/key"}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, s := range c.PlainSecrets() {
		found[s.Key] = s.Fix
	}
	want := map[string]string{
		"sources.a.mcp.env.API_KEY": "toolroom secret lift a", "sources.b.mcp.headers.Authorization": "toolroom secret lift b",
		"sources.c.openapi.auth.key": "toolroom secret lift c", "sources.c.openapi.headers.X-Api-Key": "toolroom secret lift c",
		"sources.c.openapi.headers.X_Api_Key": "toolroom secret lift c",
		"sources.e.http.tools.0.query.token":  "toolroom secret set e/token, and write secret://e/token",
	}
	for key, fix := range want {
		if found[key] != fix {
			t.Errorf("%s: %q, want %q", key, found[key], fix)
		}
		delete(found, key)
	}
	if len(found) > 0 {
		t.Errorf("these are no secrets: %v", found)
	}
	for name, s := range c.Sources {
		before := len(c.PlainSecrets())
		lifted, secrets := config.LiftSecrets(name, s)
		values := map[string]bool{}
		for _, value := range secrets {
			values[value] = true
		}
		switch {
		case name == "a" && (lifted.MCP.Env["API_KEY"] != "secret://a/API_KEY" || lifted.MCP.Env["MODE"] != "fast" || lifted.MCP.Env["PASSWORD"] != "abc" || len(secrets) != 1):
			t.Errorf("a: %v, %v", lifted.MCP.Env, secrets)
		case name == "b" && (lifted.MCP.Headers["Authorization"] != "Bearer secret://b/Authorization" || secrets["secret://b/Authorization"] != "hunter2hunter2"):
			t.Errorf("b: %v, %v", lifted.MCP.Headers, secrets)
		case name == "c" && (len(secrets) != 3 || !values["hunter2hunter2"] || !values["hunter3hunter3"] || !values["hunter4hunter4"]):
			t.Errorf("c: %v", secrets)
		case name == "d" && len(secrets) != 0:
			t.Errorf("d: %v", secrets)
		}
		if len(c.PlainSecrets()) != before {
			t.Errorf("%s: lifting changed the config itself", name)
		}
	}
}

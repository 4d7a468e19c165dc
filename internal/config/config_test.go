package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
)

func TestAnEmptyFileIsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "sources:\nserver:\n  # listen: x\n", "{}"} {
		got, err := config.Parse("toolroom.yaml", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(config.Default(), got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	d := config.Default()
	if d.Server.Listen != "127.0.0.1:7070" || d.Store.URL != "sqlite:toolroom.db" || d.Expose.Mode != "auto" || d.CLI.Mode != "allowlist" {
		t.Errorf("the defaults are %+v", d)
	}
}

// promised is the form that the documentation promises.
const promised = `server:  {listen: 127.0.0.1:7070}
store:   {url: "sqlite:toolroom.db"}            # or postgres://…
expose:  {mode: direct}                         # auto, direct, search, code, or patterns of each
tools:                                          # policy layers, as in the reference
  profile: full
  allow: []
  deny: ["browser.*"]
  agents:    {fast: {profile: minimal}}
  providers: {ollama: {deny: ["web.search"]}}
cli:     {mode: allowlist, allow: [git, gh]}    # disabled, allowlist, ambient
sources:                                        # the key is the namespace
  filesystem: {mcp: {command: mcp-server-filesystem, args: ["."]}}
  issues:     {mcp: {url: "https://example.com/mcp", headers: {Authorization: "secret://issues/token"}}}
  petstore:   {openapi: {spec: petstore.json, base_url: "http://127.0.0.1:8081"}}
  weather:    {http: {base_url: "https://api.example.com/tools", tools: [{name: forecast, input_schema: {type: object}}]}}
  git:        {cli: {command: git}}
`

func TestThePromisedFormIsRead(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("toolroom.yaml", []byte(promised))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Expose.Mode = "direct"
	want.Tools = policy.Config{
		Rules:     policy.Rules{Profile: "full", Deny: []string{"browser.*"}},
		Agents:    map[string]policy.Rules{"fast": {Profile: "minimal"}},
		Providers: map[string]policy.Rules{"ollama": {Deny: []string{"web.search"}}},
	}
	want.CLI.Allow = []string{"git", "gh"}
	want.Sources = map[string]config.Source{
		"filesystem": {MCP: &config.MCP{Command: "mcp-server-filesystem", Args: []string{"."}}},
		"issues":     {MCP: &config.MCP{URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "secret://issues/token"}}},
		"petstore":   {OpenAPI: &config.OpenAPI{Spec: "petstore.json", BaseURL: "http://127.0.0.1:8081"}},
		"weather": {HTTP: &config.HTTP{BaseURL: "https://api.example.com/tools", Tools: []config.HTTPTool{
			{Name: "forecast", InputSchema: config.JSON(`{"type":"object"}`)},
		}}},
		"git": {CLI: &config.CLISource{Command: "git"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValuesAreReadAsTheyAreMeant(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("toolroom.yaml", []byte(`
limits: {timeout: 1h30m, max_timeout: 2h, rate: {per_second: 5}, cache: {ttl: 0}}
results: {total_bytes: 1000}
sources:
  s:
    disabled: true
    timeout: 250ms
    mcp:
      command: server
      args: [-p, 8080, 1.10]
      env: {PORT: 8080, DEBUG: true, ANSWER: no, EMPTY: ""}
  w:
    http:
      base_url: http://127.0.0.1:1
      tools:
      - name: t
        hints: {read_only: true, destructive: false}
        guarantee: keyed
        input_schema:
          type: object
          properties: {z: {maximum: 12345678901234567890}, a: {enum: [null, true, 1.50, 0x1F, .5, "<x>", 2026-11-01]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Limits.Timeout != 90*time.Minute || got.Limits.Rate.PerSecond != 5 || got.Limits.Cache.TTL != 5*time.Minute {
		t.Errorf("limits: %+v", got.Limits)
	}
	if got.Results.EntryBytes != 1000 || got.Results.Entries != 64 {
		t.Errorf("results: %+v", got.Results)
	}
	s := got.Sources["s"]
	wantMCP := &config.MCP{
		Command: "server", Args: []string{"-p", "8080", "1.10"},
		Env: map[string]string{"PORT": "8080", "DEBUG": "true", "ANSWER": "no", "EMPTY": ""},
	}
	if diff := cmp.Diff(wantMCP, s.MCP); diff != "" || !s.Disabled || s.Timeout != 250*time.Millisecond {
		t.Errorf("source: %+v (-want +got):\n%s", s, diff)
	}
	tool := got.Sources["w"].HTTP.Tools[0]
	const schema = `{"type":"object","properties":{"z":{"maximum":12345678901234567890},"a":{"enum":[null,true,1.50,31,0.5,"<x>","2026-11-01"]}}}`
	if diff := cmp.Diff(schema, string(tool.InputSchema)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	if tool.Guarantee != "keyed" || !*tool.Hints.ReadOnly || *tool.Hints.Destructive || tool.Hints.OpenWorld != nil {
		t.Errorf("tool: %+v", tool)
	}
}

func TestLoadAndFindNameTheFilesTheyLookedFor(t *testing.T) {
	t.Parallel()
	cwd, user := t.TempDir(), t.TempDir()
	path, err := config.Find("", cwd, user)
	if !errors.Is(err, fs.ErrNotExist) || path != filepath.Join(cwd, "toolroom.yaml") {
		t.Errorf("got %s, %v", path, err)
	}
	for _, want := range []string{cwd, filepath.Join(user, "toolroom", "toolroom.yaml"), "toolroom init"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	for _, place := range []string{filepath.Join(user, "toolroom", "toolroom.yaml"), filepath.Join(cwd, "toolroom.yaml")} {
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if path, err := config.Find("", cwd, user); err != nil || path != place {
			t.Errorf("got %s, %v; want %s", path, err, place)
		}
	}
	missing := filepath.Join(cwd, "other.yaml")
	if path, err := config.Find(missing, cwd, user); !errors.Is(err, fs.ErrNotExist) || path != missing {
		t.Errorf("got %s, %v", path, err)
	}
	if _, err := config.Load(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}

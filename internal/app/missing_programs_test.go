package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
)

func TestWhatAConfigNamesAndIsNotHereIsFound(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "toolroom.yaml")
	text := `sources:
  a: {cli: {command: no-such-program-here}}
  b: {mcp: {command: no-such-program-here}}
  c: {openapi: {spec: missing.json, base_url: "http://127.0.0.1:1"}}
  off: {disabled: true, cli: {command: no-such-program-here}}
  elsewhere: {cli: {command: no-such-program-here, env: {PATH: /opt/bin}}}
  path: {cli: {command: ./later}}
  here: {cli: {command: sh}}
  remote: {openapi: {spec: "https://example.com/openapi.json"}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range app.FindMissing(c, file) {
		keys = append(keys, m.Key)
	}
	if diff := cmp.Diff([]string{"sources.a.cli.command", "sources.b.mcp.command", "sources.c.openapi.spec"}, keys); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

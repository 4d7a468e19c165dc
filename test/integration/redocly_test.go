//go:build integration

package integration

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheOpenAPIDocumentPassesRedocly lints the document of the API as its makers do: no
// error and no warning of the recommended rules.
func TestTheOpenAPIDocumentPassesRedocly(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	s := r.serveAt("127.0.0.1:0")
	answer, err := http.Get(s.url + "/api/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	file := filepath.Join(t.TempDir(), "openapi.json")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadFrom(answer.Body); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	lint := r.runProgram("env", "REDOCLY_TELEMETRY=off", nodeProgram(t), npmFile(t, "@redocly", "cli", "bin", "cli.js"), "lint", "--extends=recommended", "--format=stylish", file)
	if text := lint.stdout + lint.stderr; lint.code != 0 || !strings.Contains(text, "valid") || strings.Contains(text, "warning") {
		t.Errorf("redocly: exit %d\n%s", lint.code, text)
	}
}

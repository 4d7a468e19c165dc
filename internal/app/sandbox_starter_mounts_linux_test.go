package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// A folder that a sandbox shows within another one keeps its own right, in whatever order the
// config and the program name them.
func TestFoldersWithinFoldersKeepTheirRights(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	// An environment of Python, whose whole prefix is shown.
	venv := filepath.Join(t.TempDir(), "venv")
	// A prefix of Node's packages, of which bin and the packages are shown.
	prefix := filepath.Join(t.TempDir(), "prefix")
	for path, text := range map[string]string{
		filepath.Join(inner, "x"): "x", filepath.Join(venv, "pyvenv.cfg"): "", filepath.Join(venv, "data", "x"): "x",
		filepath.Join(prefix, "private"): "private", filepath.Join(prefix, "lib", "node_modules", "it", "main"): "module",
		filepath.Join(venv, "bin", "tool"): touches, filepath.Join(prefix, "bin", "tool"): touches,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := withProcess(t, fmt.Sprintf(`cli: {mode: ambient}
sources:
  kept:
    mcp: {command: %[1]q, env: {%[2]s: "1"}}
    sandbox: {write: [%[3]q], read: [%[4]q]}
  opened:
    mcp: {command: %[1]q, env: {%[2]s: "1"}}
    sandbox: {write: [%[4]q], read: [%[3]q]}
  python: {cli: {command: %[5]q}, sandbox: {write: [%[6]q]}}
  whole: {cli: {command: %[5]q}, sandbox: {write: [%[7]q]}}
  node: {cli: {command: %[8]q}, sandbox: {}}
`, self, nosyVariable, outer, inner, filepath.Join(venv, "bin", "tool"), filepath.Join(venv, "data"), venv, filepath.Join(prefix, "bin", "tool")))
	for _, c := range []struct{ tool, path, want string }{
		{"kept:write", filepath.Join(outer, "a"), "written"},
		{"kept:write", filepath.Join(inner, "a"), "read-only"},
		{"opened:write", filepath.Join(outer, "b"), "read-only"},
		{"opened:write", filepath.Join(inner, "b"), "written"},
		{"python:tool", filepath.Join(venv, "data", "c"), "written"},
		{"python:tool", filepath.Join(venv, "bin", "c"), "Read-only"},
		{"whole:tool", filepath.Join(venv, "bin", "d"), "written"},
		{"node:tool", filepath.Join(prefix, "bin", "e"), "Read-only"},
		{"node:tool", filepath.Join(prefix, "lib", "node_modules", "it", "main"), "module"},
		{"node:tool", filepath.Join(prefix, "private"), "cannot open"},
	} {
		arguments, err := json.Marshal(map[string]string{"path": c.path})
		if strings.HasSuffix(c.tool, ":tool") {
			arguments, err = json.Marshal(map[string]string{"stdin": c.path + "\n"})
		}
		if err != nil {
			t.Fatal(err)
		}
		result := r.Run(t.Context(), toolroom.Call{Tool: c.tool, Arguments: arguments})
		said := string(result.Value)
		if len(result.Content) > 0 {
			said += result.Content[0].Text
		}
		if result.Error != nil {
			said += result.Error.Message
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s %s: %s, want %q", c.tool, c.path, said, c.want)
		}
	}
}

// touches reads the file whose path is on its input, or writes it if there is none.
const touches = `#!/bin/sh
[ "$1" = --help ] && exit
read path
case $path in */main|*/private) cat < "$path"; exit;; esac
echo text > "$path" && echo written
`

package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// A folder that holds Toolroom's home, as a user's home folder does, shows a program in a
// sandbox neither the state in it nor lets it change the config; also by another path. Nor can
// the program put folders of its own in their place.
func TestASandboxOfASourceDoesNotShowToolroomsOwnState(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	user, link := filepath.Join(dir, "user"), filepath.Join(dir, "link")
	home, file := filepath.Join(user, ".local", "state", "toolroom"), filepath.Join(user, "toolroom.yaml")
	if err := os.MkdirAll(filepath.Join(home, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(user, link); err != nil {
		t.Fatal(err)
	}
	config := "sources:\n"
	for name, folder := range map[string]string{"wide": user, "linked": link, "state": home, "inside": filepath.Join(home, "inside")} {
		config += fmt.Sprintf("  %s:\n    mcp: {command: %q, env: {%s: \"1\"}}\n    sandbox: {write: [%q]}\n", name, self, nosyVariable, folder)
	}
	for path, text := range map[string]string{filepath.Join(home, "inside", "key"): topSecret, filepath.Join(user, "x"): "shown", file: config} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, app.Options{Home: home, Helper: self, ConfigFile: file, Environ: os.Environ()})
	d, err := r.Driver("process")
	if err != nil {
		t.Fatal(err)
	}
	if p := d.Probe(t.Context()); p.State != sandbox.Available && os.Getenv("CI") != "true" {
		t.Skip(p.Reason)
	}
	for _, c := range []struct{ tool, path, want string }{
		{"wide:read", filepath.Join(user, "x"), "shown"},
		{"wide:write", filepath.Join(user, "y"), "written"},
		{"wide:read", file, "sources:"},
		{"wide:write", file, "read-only"},
		{"wide:read", filepath.Join(home, "inside", "key"), "no such file"},
		{"wide:write", filepath.Join(home, "new"), "read-only"},
		{"wide:move", filepath.Join(user, ".local"), "busy"},
		{"wide:move", filepath.Join(user, ".local", "state"), "busy"},
		{"linked:move", filepath.Join(link, ".local"), "busy"},
		{"wide:write", filepath.Join(user, ".local", "z"), "written"},
		{"wide:move", filepath.Join(user, ".local", "z"), "moved"},
		{"linked:write", filepath.Join(link, ".local", "z"), "written"},
		{"wide:write", "/home/source/state", "written"},
		{"linked:write", filepath.Join(link, "toolroom.yaml"), "read-only"},
		{"linked:read", filepath.Join(link, ".local", "state", "toolroom", "inside", "key"), "no such file"},
		{"state:read", filepath.Join(home, "inside", "key"), "belongs to Toolroom itself"},
		{"inside:read", filepath.Join(home, "inside", "key"), "belongs to Toolroom itself"},
	} {
		arguments, err := json.Marshal(map[string]string{"path": c.path})
		if err != nil {
			t.Fatal(err)
		}
		said, err := json.Marshal(r.Run(t.Context(), toolroom.Call{Tool: c.tool, Arguments: arguments}))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(said), c.want) {
			t.Errorf("%s %s: %s, want %q", c.tool, c.path, said, c.want)
		}
	}
}

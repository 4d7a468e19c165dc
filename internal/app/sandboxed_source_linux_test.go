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
)

// A rule about one caller holds on an MCP server in a sandbox, for that caller's calls only:
// also when it names the file by another path, reads it as a resource, or the file has been
// replaced or made since the server was started.
func TestRulesOfOneCallerHoldOnAServerInASandbox(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "dir")
	secret, open := filepath.Join(dir, "secret", "a.key"), filepath.Join(dir, "open.txt")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, topSecret)
	write(open, "open to all")
	link := filepath.Join(top, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	r := withProcess(t, fmt.Sprintf(`tools:
  agents:
    guest: {deny: ["effect:file:%[1]s/**/*.key", "effect:file.write:%[1]s/**", "effect:command:cat", "effect:file:/home/*/private"]}
sources:
  nosy:
    mcp: {command: %[2]q, env: {%[3]s: "1"}}
    sandbox: {write: [%[1]q]}
  linked:
    mcp: {command: %[2]q, env: {%[3]s: "1"}}
    sandbox: {write: [%[4]q]}
`, dir, self, nosyVariable, link))
	call := func(agent, tool, path string) string {
		t.Helper()
		args := map[string]string{"path": coded(path)}
		if strings.HasSuffix(tool, ".read") {
			args = map[string]string{"uri": "file://" + coded(path)}
		}
		arguments, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		result := r.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: arguments, Identity: toolroom.Identity{Agent: agent}})
		text, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	holds := func(agent, tool, path, want string) {
		t.Helper()
		if said := call(agent, tool, path); !strings.Contains(said, want) {
			t.Errorf("%s: %s %s: %s, want %q", agent, tool, path, said, want)
		}
	}
	linked := filepath.Join(link, "secret", "a.key")
	holds("", "nosy:read", secret, "TOPSECRET")
	holds("", "nosy:resources.read", secret, "TOPSECRET")
	holds("", "linked:read", linked, "TOPSECRET")
	holds("", "nosy:write", "/home/source/made", "written")
	holds("", "nosy:write", "/home/source/private", "written")
	for i := range 3 {
		for _, path := range []string{secret, filepath.Join(dir, ".", "secret", "..", "secret", "a.key"), "/proc/self/root" + secret} {
			for _, tool := range []string{"nosy:read", "nosy:resources.read"} {
				if said := call("guest", tool, path); strings.Contains(said, "TOPSECRET") || !strings.Contains(said, "permission denied") {
					t.Errorf("round %d: %s %s: %s", i, tool, path, said)
				}
			}
		}
		holds("guest", "linked:read", linked, "permission denied")
		holds("guest", "nosy:read", open, "open to all")
		holds("guest", "nosy:write", open, "read-only")
		holds("guest", "nosy:read", "/usr/bin/cat", "permission denied")
		holds("guest", "nosy:read", "/home/source/made", "mine")
		holds("guest", "nosy:read", "/home/source/private", "permission denied")
		holds("", "nosy:read", secret, "TOPSECRET")
		switch i {
		case 0: // as editors save
			write(secret, topSecret)
		case 1:
			secret = filepath.Join(dir, "later", "b.key")
			write(secret, topSecret)
		}
	}
}

// A program whose sandbox does not show the folder of the config has one of its own, and rules
// about files judge relative paths there.
func TestRelativePathsOfASandboxAreInItsOwnFolder(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	shown := t.TempDir() // the config is in a folder beside it
	r := withProcess(t, fmt.Sprintf(`cli: {mode: ambient}
tools: {deny: ["effect:file.write:%[1]s/**", "effect:file:/etc/**"]}
sources:
  hidden: {mcp: {command: %[3]q, env: {%[4]s: "1"}}, sandbox: {}}
  shown:  {mcp: {command: %[3]q, env: {%[4]s: "1"}, cwd: %[2]q}, sandbox: {write: [%[2]q]}}
  inside: {cli: {command: touch}, sandbox: {}}
  beside: {cli: {command: touch, cwd: %[2]q}, sandbox: {write: [%[2]q]}}
`, filepath.Dir(shown), shown, self, nosyVariable))
	for _, c := range []struct {
		tool, arguments string
		denied          bool
	}{
		{"hidden:write", `{"path":"made"}`, false},
		{"shown:write", `{"path":"made"}`, true},
		{"hidden:read", `{"path":"../../etc/passwd"}`, true},
		{"inside:touch", `{"_":["made"]}`, false},
		{"beside:touch", `{"_":["made"]}`, true},
	} {
		result := r.Run(t.Context(), toolroom.Call{Tool: c.tool, Arguments: json.RawMessage(c.arguments)})
		if denied := result.Status == toolroom.StatusDenied; denied != c.denied || !denied && result.Error != nil {
			t.Errorf("%s %s: %s, %v", c.tool, c.arguments, result.Status, result.Error)
		}
	}
}

// The sandbox of a source counts for @isolation.
func TestTheSandboxOfASourceCountsAsIsolation(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ asks, sandbox, refused string }{
		{`isolation("container")`, "sandbox: {}", ""},
		{`isolation("container")`, "", "runs in no sandbox"},
		{`isolation("vm")`, "sandbox: {}", "policy requires isolation vm or stronger, but the program of the source nosy runs in "},
		{`engine("docker")`, "sandbox: {}", "policy requires engine docker, but the program of the source nosy runs in process"},
	} {
		r := withProcess(t, fmt.Sprintf(`policy:
  rules: ['@%s permit (principal, action, resource);']
sources:
  nosy:
    mcp: {command: %q, env: {%s: "1"}}
    %s
`, tt.asks, self, nosyVariable, tt.sandbox))
		result := r.Run(t.Context(), toolroom.Call{Tool: "nosy:variable", Arguments: json.RawMessage(`{"path":"HOME"}`)})
		said := ""
		if result.Error != nil {
			said = result.Error.Message
		}
		if (said == "") != (tt.refused == "") || !strings.Contains(said, tt.refused) {
			t.Errorf("%+v: %q", tt, said)
		}
	}
}

// A file of the config that is replaced on this machine, as editors save, takes its mount away
// from every sandbox that is open, so a server that may write to its folder starts anew.
func TestAServerCannotWriteAConfigThatWasReplaced(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "toolroom.yaml"), filepath.Join(dir, "rules.cedar")
	save := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`policy: {rules: [rules.cedar]}
sources:
  nosy: {mcp: {command: %[1]q, env: {%[2]s: "1"}}, sandbox: {write: [%[3]q]}}
  away: {mcp: {command: %[1]q, env: {%[2]s: "1"}}, sandbox: {write: [%[4]q]}}
`, self, nosyVariable, dir, t.TempDir())
	save(file, config)
	save(rules, "permit (principal, action, resource);")
	r := open(t, app.Options{Home: t.TempDir(), Helper: self, ConfigFile: file, Environ: os.Environ()})
	held := func(when, file string) {
		t.Helper()
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		result := r.Run(t.Context(), toolroom.Call{Tool: "nosy:write", Arguments: json.RawMessage(fmt.Sprintf(`{"path":%q}`, file))})
		after, err := os.ReadFile(file)
		if err != nil || string(after) != string(before) || !strings.Contains(fmt.Sprint(result.Text(), result.Error), "read-only") {
			t.Errorf("%s: %s is %q (%v): %s, %v", when, filepath.Base(file), after, err, result.Text(), result.Error)
		}
	}
	// Its /tmp ends with the sandbox.
	if result := r.Run(t.Context(), toolroom.Call{Tool: "away:write", Arguments: json.RawMessage(`{"path":"/tmp/mark"}`)}); result.Error != nil {
		t.Fatal(result.Error)
	}
	held("at first", file)
	held("at first", rules)
	save(file, config+"# changed\n")
	if err := r.ReloadFile(); err != nil {
		t.Fatal(err)
	}
	held("after the config was saved", file)
	save(rules, "permit (principal, action, resource); // changed")
	if err := r.ReloadPolicy(); err != nil {
		t.Fatal(err)
	}
	held("after the rules were saved", rules)
	held("after the rules were saved", file)
	if result := r.Run(t.Context(), toolroom.Call{Tool: "away:read", Arguments: json.RawMessage(`{"path":"/tmp/mark"}`)}); result.Text() != "mine" {
		t.Errorf("a server that cannot write them has started anew: %s, %v", result.Text(), result.Error)
	}
}

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestASkillIsHeldToItsManifest(t *testing.T) {
	t.Parallel()
	tools := []string{"web.fetch", "file.*"}
	p := compile(t, Config{Skills: map[string]Skill{
		"none":    {},
		"groups":  {Permissions: &Permissions{ToolGroups: []string{"web", "group:fs"}}},
		"nothing": {Permissions: &Permissions{Tools: &[]string{}, ToolGroups: []string{"web"}}},
		"whole": {Permissions: &Permissions{
			Tools: &tools, ToolGroups: []string{"runtime"}, ExecutionEnvironment: "gvisor",
			FS:  FSPermissions{Read: []string{"/srv/**", "/etc/*.conf"}, Write: []string{"/srv/out/*"}},
			Net: []NetPermission{{Host: "*.example.com", Ports: []int{443}}, {Host: "127.0.0.1"}}, Secrets: SecretPermissions{Scopes: []string{"docs", "team-*"}},
		}},
	}})
	for _, tt := range []struct {
		skill, tool string
		want        toolroom.Verdict
	}{
		{"none", "web:fetch", toolroom.VerdictDeny},
		{"groups", "web:fetch", toolroom.VerdictAllow},
		{"groups", "file:read", toolroom.VerdictAllow},
		{"groups", "shell:exec", toolroom.VerdictDeny},
		{"nothing", "web:fetch", toolroom.VerdictDeny},
		{"whole", "file:read", toolroom.VerdictAllow},
		{"whole", "shell:exec", toolroom.VerdictDeny}, // tools overrides tool_groups
		{"other", "web:fetch", toolroom.VerdictDeny},
		{"", "shell:exec", toolroom.VerdictAllow},
	} {
		got := decide(p, tool(tt.tool), toolroom.Identity{Skill: tt.skill})
		if got.Effect != tt.want {
			t.Errorf("%s calls %s: %+v", tt.skill, tt.tool, got)
		}
	}
	for name, tt := range map[string]struct {
		does Context
		want string // the limit that is broken
	}{
		"nothing":               {Context{}, ""},
		"within":                {Context{Effects: []toolroom.Effect{effect(t, "file.read:/srv/a/b"), effect(t, "file.read:/etc/x.conf"), effect(t, "file.write:/srv/out/a"), effect(t, "host.get:api.example.com:443"), effect(t, "host.get:127.0.0.1:1")}, Secrets: []string{"docs", "team-a"}}, ""},
		"a folder itself":       {Context{Effects: []toolroom.Effect{effect(t, "file.read:/srv")}}, ""},
		"another file":          {Context{Effects: []toolroom.Effect{effect(t, "file.read:/srv/a"), effect(t, "file.read:/etc/shadow")}}, "fs.read"},
		"deeper than the glob":  {Context{Effects: []toolroom.Effect{effect(t, "file.read:/etc/a/x.conf")}}, "fs.read"},
		"reading is no writing": {Context{Effects: []toolroom.Effect{effect(t, "file.write:/srv/a")}}, "fs.write"},
		"deeper for writing":    {Context{Effects: []toolroom.Effect{effect(t, "file.write:/srv/out/a/b")}}, "fs.write"},
		"a way up":              {Context{Effects: []toolroom.Effect{effect(t, "file.read:/srv/../etc/shadow")}}, "fs.read"},
		"another port":          {Context{Effects: []toolroom.Effect{effect(t, "host.get:api.example.com:80")}}, "net"},
		"the host above":        {Context{Effects: []toolroom.Effect{effect(t, "host.get:example.com:443")}}, "net"},
		"a host that ends so":   {Context{Effects: []toolroom.Effect{effect(t, "host.get:evilexample.com:443")}}, "net"},
		"in capitals":           {Context{Effects: []toolroom.Effect{effect(t, "host.get:API.Example.COM:443")}}, ""},
		"with a dot at its end": {Context{Effects: []toolroom.Effect{effect(t, "host.get:api.example.com.:443")}}, ""},
		"no port":               {Context{Effects: []toolroom.Effect{effect(t, "host.get:api.example.com")}}, "net"},
		"a file nobody knows":   {Context{Effects: []toolroom.Effect{effect(t, "file.read")}}, "fs.read"},
		"reading or writing":    {Context{Effects: []toolroom.Effect{effect(t, "file:/srv/a")}}, "fs.write"},
		"deleting is writing":   {Context{Effects: []toolroom.Effect{effect(t, "file.delete:/srv/a")}}, "fs.write"},
		"a host nobody knows":   {Context{Effects: []toolroom.Effect{effect(t, "host")}}, "net"},
		"another scope":         {Context{Secrets: []string{"docs", "prod"}}, "secrets.scopes: does not include prod"},
	} {
		got := decideCall(p, tool("web:fetch"), toolroom.Identity{Skill: "whole"}, &tt.does)
		if (got.Effect == toolroom.VerdictDeny) != (tt.want != "") || !strings.Contains(got.Rule, tt.want) || got.Isolation != "gvisor" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestManifestsAreReadFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"whole.json": `{"name":"x","version":"1","permissions":{"tool_groups":["web"],"fs":{"read":["/a"]},"net":[{"host":"h","ports":[1]}],"secrets":{"scopes":["s"]},"execution_environment":"process"}}`,
		"none.json":  `{"name":"x"}`, "null.json": `{"permissions":null}`, "wrong.json": `{"permissions":{"tols":[]}}`, "no.json": `[`,
		"form.json": `{"permissions":{"net":{"hosts":["h"]}}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ReadManifests(Config{Skills: map[string]Skill{"w": {Manifest: "whole.json"}, "n": {Manifest: filepath.Join(dir, "none.json")}, "u": {Manifest: "null.json"}}}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Skills["w"].Permissions; p == nil || p.ToolGroups[0] != "web" || p.Net[0].Ports[0] != 1 || p.Secrets.Scopes[0] != "s" || p.ExecutionEnvironment != "process" {
		t.Errorf("%+v", p)
	}
	if c.Skills["n"].Permissions != nil || c.Skills["u"].Permissions != nil {
		t.Error("a manifest without permissions has some")
	}
	_, err = ReadManifests(Config{Skills: map[string]Skill{
		"a": {Manifest: "wrong.json"}, "b": {Manifest: "no.json"}, "c": {Manifest: "missing.json"},
		"d": {Manifest: "whole.json", Permissions: &Permissions{}}, "e": {Manifest: "form.json"},
	}}, dir, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for i, want := range []string{`tools.skills.a.manifest: `, "tools.skills.b.manifest: ", "tools.skills.c.manifest: ", "tools.skills.d.permissions: ", "tools.skills.e.manifest: "} {
		if line := strings.Split(err.Error(), "\n")[i]; !strings.HasPrefix(line, want) {
			t.Errorf("%q, want %s", line, want)
		}
	}
	if want := "permissions.net: object does not fit there"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestMistakesInTheOtherSectionsAreToldToo(t *testing.T) {
	t.Parallel()
	_, err := Compile(Config{
		Rules:     Rules{Autonomy: "conservativ"},
		Hooks:     []Hook{{"file.*", "ask"}, {"no namespace", ActionLog}},
		Denylist:  []Denial{{Tool: "shell.exec", ArgsPattern: "("}, {Tool: "x"}},
		Sensitive: Sensitive{Tools: []string{"group:rutnime"}, Mode: "deny"},
		Skills: map[string]Skill{"s": {Permissions: &Permissions{
			ToolGroups: []string{"wbe"}, Net: []NetPermission{{Ports: []int{70000}}}, ExecutionEnvironment: "gvizor",
		}}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"tools.autonomy: there is no autonomy \"conservativ\" (did you mean conservative?)",
		"tools.hooks[0].action: there is no action \"ask\": there are confirm, log, silent",
		"tools.hooks[1].tool: ",
		"tools.immutable_denylist[0].args_pattern: ",
		"tools.immutable_denylist[1].tool: ",
		"tools.sensitive.tools[0]: there is no group \"rutnime\" (did you mean runtime?)",
		"tools.sensitive.mode: ",
		"tools.skills.s.tool_groups[0]: there is no group \"wbe\" (did you mean web?)",
		"tools.skills.s.net[0].host: ", "tools.skills.s.net[0].ports: 70000 is not a port",
		"tools.skills.s.execution_environment: there is no isolation \"gvizor\" (did you mean gvisor?)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %s:\n%v", want, err)
		}
	}
}

func TestASkillThatMayNotDoWhatIsUnknownIsToldHowToDeclareIt(t *testing.T) {
	t.Parallel()
	tools := []string{"*"}
	p := compile(t, Config{Skills: map[string]Skill{"reads": {Permissions: &Permissions{Tools: &tools, FS: FSPermissions{Read: []string{"/srv/**"}}}}}})
	for text, told := range map[string]bool{"file:/srv/a": true, "file.read": true, "file.read:/etc/a": false} {
		d := p.Decide(t.Context(), Request{Tool: tool("w:read_file"), Who: toolroom.Identity{Skill: "reads"}, Call: &Context{Effects: []toolroom.Effect{effect(t, text)}}})
		if d.Effect != toolroom.VerdictDeny || strings.Contains(d.Hint, "effects: {") != told {
			t.Errorf("%s: %s, hint %q", text, d.Effect, d.Hint)
		}
	}
}

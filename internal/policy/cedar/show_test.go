package cedar

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/policy"
)

// shown is a config with everything that Show has a form for.
func shown() policy.Config {
	tools := []string{"web.fetch", "file.*"}
	return policy.Config{
		Rules: policy.Rules{
			Profile: "own", Allow: []string{"github.*"}, Deny: []string{"*.delete_*", "effect:file.write:/etc/**"},
			Confirm: []string{"hint:destructive", "effect:send"},
		},
		Profiles: map[string][]string{"own": {"web.fetch", "tag:beta", "source:mcp"}},
		Groups:   map[string][]string{"mine": {"a.b", "a.c"}},
		Agents: map[string]policy.Rules{
			"coder": {Allow: []string{"group:mine"}, Autonomy: policy.Conservative},
			"free":  {Autonomy: policy.Autonomous},
			"plain": {Deny: []string{"a.*"}},
		},
		Providers:  map[string]policy.Rules{"ollama": {Confirm: []string{"*"}, Autonomy: policy.Standard}},
		Identities: map[string]policy.Rules{"ann": {Deny: []string{"mcp:x:y"}, Autonomy: policy.Conservative}},
		Sets:       map[string]policy.Rules{"small": {Allow: []string{"a.b"}, Autonomy: policy.Conservative}},
		Skills: map[string]policy.Skill{
			"none":   {},
			"groups": {Permissions: &policy.Permissions{ToolGroups: []string{"web", "group:fs"}}},
			"net":    {Permissions: &policy.Permissions{Tools: &tools, Net: []policy.NetPermission{{Host: "*"}}}},
			"whole":  {Permissions: &policy.Permissions{Tools: &tools, ExecutionEnvironment: "gvisor"}},
		},
		Hooks: []policy.Hook{
			{Tool: "a.log", Action: policy.ActionLog},
			{Tool: "a.ask", Action: policy.ActionConfirm},
			{Tool: "a.*", Action: policy.ActionSilent},
			{Tool: "b.*", Action: policy.ActionConfirm},
		},
		Denylist:  []policy.Denial{{Tool: "x.y"}, {Tool: "shell.exec", ArgsPattern: "rm"}},
		Sensitive: policy.Sensitive{Tools: []string{"pay.*"}},
	}
}

func TestAPolicyIsShownAsCedar(t *testing.T) {
	t.Parallel()
	if _, err := policy.Compile(shown()); err != nil {
		t.Fatal(err)
	}
	const rules = "\nforbid(principal, action, resource) when { context.depth > 3 };\n\n"
	got := Show(shown(), compile(t, Options{Groups: policy.Config{}.GroupPatterns()}, rules))
	want, err := os.ReadFile("testdata/show.cedar")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := Compile([]Text{{Name: "shown", Body: []byte(got)}}, Options{}); err != nil {
		t.Errorf("what is shown is no Cedar: %v", err)
	}
	// Without a limit on hosts, files or secrets there is nothing to say of them.
	for name, limit := range map[string]policy.Permissions{
		"read": {FS: policy.FSPermissions{Read: []string{"/**"}}}, "write": {FS: policy.FSPermissions{Write: []string{"/**"}}},
		"net": {Net: []policy.NetPermission{{Host: "*"}}}, "secrets": {Secrets: policy.SecretPermissions{Scopes: []string{"*"}}}, "": {},
	} {
		text := Show(policy.Config{Skills: map[string]policy.Skill{"s": {Permissions: &limit}}}, nil)
		if strings.Contains(text, "held to its manifest") != (name != "") {
			t.Errorf("%s: %s", name, text)
		}
	}
	// Who may do anything without asking is asked nothing by hooks.
	hooks := policy.Config{Rules: policy.Rules{Autonomy: policy.Autonomous}, Hooks: []policy.Hook{{Tool: "a.ask", Action: policy.ActionConfirm}}}
	if text := Show(hooks, nil); strings.Contains(text, "@outcome") || !strings.HasSuffix(text, "unless { principal.skill == \"\" };\n") {
		t.Errorf("%s", text)
	}
	hooks.Autonomy = policy.Conservative
	if text := Show(hooks, nil); !strings.Contains(text, "@id(\"tools.autonomy: conservative\")\n@outcome(\"confirm\")\npermit (principal, action, resource)\nwhen { resource") {
		t.Errorf("%s", text)
	}
	deny := Show(policy.Config{}, compile(t, Options{DenyByDefault: true}, ""))
	if !strings.Contains(deny, "// policy.default is deny") || strings.Contains(deny, `@id("tools")`) {
		t.Errorf("%s", deny)
	}
}

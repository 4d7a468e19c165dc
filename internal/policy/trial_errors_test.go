package policy

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestAFileOfCasesIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const one = "cases:\n- {tool: a.b, want: allow}\n"
	for name, tt := range map[string]struct{ text, says string }{
		"one": {one, ""}, "largest": {one + strings.Repeat(" ", MaxCaseFile-len(one)), ""}, "larger": {one + strings.Repeat(" ", MaxCaseFile-len(one)+1), "more than"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cases, err := ReadCases(path)
		if (err == nil) != (tt.says == "") || err == nil && (len(cases) != 1 || cases[0].String() != "a.b") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, %v", name, cases, err)
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := ReadCases(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

func TestACaseThatCannotBeTriedIsNamed(t *testing.T) {
	t.Parallel()
	tried := trial(t, Config{})
	good := Case{Tool: "a.b", Want: toolroom.VerdictAllow}
	for name, bad := range map[string]Case{
		"tool":      {Name: "bad", Tool: "what is this"},
		"effect":    {Name: "bad", Tool: "a.b", Effects: []string{"file.burn"}},
		"arguments": {Name: "bad", Tool: "a.b", Arguments: map[string]any{"f": func() {}}},
	} {
		if _, err := tried.Run(t.Context(), []Case{good, bad}); err == nil || !strings.HasPrefix(err.Error(), "case 2 (bad): ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACaseHasTheEffectsAndTheToolThatItSays(t *testing.T) {
	t.Parallel()
	tried := NewTrial(compile(t, Config{Rules: Rules{Deny: []string{"effect:file.write:/etc/**"}, Confirm: []string{"source:mcp"}}}), func(context.Context, string) (*toolroom.Tool, error) {
		return &toolroom.Tool{ID: toolroom.MustParseID("a:b"), Source: toolroom.SourceMCP}, nil
	})
	gvisor := toolroom.Isolation("gvisor")
	outcomes, err := tried.Run(t.Context(), []Case{
		{Tool: "a.b", Effects: []string{"file.write:/etc/passwd"}, Want: toolroom.VerdictDeny},
		{Tool: "a.b", Effects: []string{"file.write:/tmp/x"}, Want: toolroom.VerdictConfirm},
		{Tool: "a.b", Source: toolroom.SourceGo, Want: toolroom.VerdictAllow},
		{Tool: "a.b", Skill: "s", WantIsolation: gvisor, Want: toolroom.VerdictDeny},
		{Tool: "a.b", Want: toolroom.VerdictConfirm},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if o.OK != (i != 3) {
			t.Errorf("case %d: %+v", i, o)
		}
	}
	isolated := NewTrial(compile(t, Config{Skills: map[string]Skill{"s": {Permissions: &Permissions{Tools: &[]string{"a.b"}, ExecutionEnvironment: "gvisor"}}}}), find)
	outcomes, err = isolated.Run(t.Context(), []Case{
		{Tool: "a.b", Skill: "s", Want: toolroom.VerdictAllow}, // any isolation will do
		{Tool: "a.b", Skill: "s", Want: toolroom.VerdictAllow, WantIsolation: gvisor},
		{Tool: "a.b", Skill: "s", Want: toolroom.VerdictAllow, WantIsolation: "vm"},
	})
	if err != nil || !outcomes[0].OK || !outcomes[1].OK || outcomes[2].OK || outcomes[2].Differences[0] != "isolation: want vm, got gvisor" {
		t.Errorf("%+v, %v", outcomes, err)
	}
}

func TestAReplayHasOnlyTheElevationThatThereWas(t *testing.T) {
	t.Parallel()
	p := compile(t, Config{
		Sensitive: Sensitive{Tools: []string{"s.*"}}, Rules: Rules{Deny: []string{"effect:file.write:/etc/**"}},
	})
	tried := NewTrial(p, find)
	enforced := errors.New("not asked")
	tried.Enforced = func(tool *toolroom.Tool, effects []toolroom.Effect) func(toolroom.Effect) bool {
		if tool.ID.Name == "write" && len(effects) == 1 {
			enforced = nil
		}
		return func(toolroom.Effect) bool { return true }
	}
	for name, tt := range map[string]struct {
		tool    string
		layers  []toolroom.PolicyStep
		effects []toolroom.Effect
		now     toolroom.Verdict
	}{
		"another layer permitted it": {"s:x", []toolroom.PolicyStep{{Layer: "tools", Effect: toolroom.VerdictAllow}}, nil, toolroom.VerdictDeny},
		"it was asked for":           {"s:x", []toolroom.PolicyStep{{Layer: SensitiveLayer, Effect: toolroom.VerdictConfirm}}, nil, toolroom.VerdictDeny},
		"it was elevated":            {"s:x", []toolroom.PolicyStep{{Layer: SensitiveLayer, Effect: toolroom.VerdictAllow}}, nil, toolroom.VerdictAllow},
		"the rule is enforced":       {"a:write", nil, []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write"}}, toolroom.VerdictAllow},
	} {
		var r ReplayResult
		tried.Replay(t.Context(), &r, RecordedCall{ID: name, Tool: tt.tool, Was: "another", Layers: tt.layers, Effects: tt.effects, Arguments: json.RawMessage(`{}`)})
		if len(r.Changes) != 1 || r.Changes[0].Now != tt.now {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if enforced != nil {
		t.Error(enforced)
	}
}

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

func TestAPolicyIsMergedIntoTheSectionToolsAlone(t *testing.T) {
	t.Parallel()
	add := policy.Config{
		Rules:  policy.Rules{Profile: "minimal", Deny: []string{"browser.*"}},
		Agents: map[string]policy.Rules{"fast": {Profile: "messaging"}},
	}
	for name, tt := range map[string]struct {
		before    string
		force     bool
		code      toolroom.Code
		conflicts string
		keeps     []string
	}{
		"a file that is not there":   {},
		"an empty file":              {before: "\n"},
		"other sections stay":        {before: "# mine\nserver: {listen: \"127.0.0.1:1\"}   # here\n\nsources:\n  x: {mcp: {command: y}}", keeps: []string{"# mine", "   # here\n\nsources:"}},
		"what is not said is added":  {before: "tools: {confirm: [\"a.*\"], agents: {slow: {profile: full}}}\ncli: {mode: disabled} # end\n", keeps: []string{"a.*", "slow:", "cli: {mode: disabled} # end"}},
		"the same is no conflict":    {before: "tools:\n  profile: minimal\n"},
		"something else is one":      {before: "tools:\n  profile: full\n  agents: {fast: {profile: coding}}\n", code: toolroom.CodeConflict, conflicts: "tools.profile, tools.agents.fast.profile"},
		"which force replaces":       {before: "tools:\n  profile: full # why\n  agents: {fast: {profile: coding}}\nlimits: {timeout: 10s}\n", force: true, keeps: []string{"limits: {timeout: 10s}"}},
		"a file in braces stays":     {before: "{tools: {allow: [\"a.b\"]}}", code: toolroom.CodeUnsupported},
		"an empty section is filled": {before: "tools:\n  # nothing yet\nlimits: {timeout: 10s}\n", keeps: []string{"limits"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "toolroom.yaml")
			if tt.before != "" {
				if err := os.WriteFile(path, []byte(tt.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := MergeTools(path, add, tt.force)
			if tt.code != "" {
				text, _ := os.ReadFile(path)
				if toolroom.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.conflicts) || string(text) != tt.before {
					t.Errorf("%v\n%s", err, text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if c.Tools.Profile != "minimal" || c.Tools.Deny[0] != "browser.*" || c.Tools.Agents["fast"].Profile != "messaging" {
				t.Errorf("%+v", c.Tools)
			}
			text, _ := os.ReadFile(path)
			for _, keep := range tt.keeps {
				if !strings.Contains(string(text), keep) {
					t.Errorf("%q is gone:\n%s", keep, text)
				}
			}
		})
	}
}

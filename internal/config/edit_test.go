package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var added = config.Source{
	MCP:     &config.MCP{Command: "npx", Args: []string{"-y", "server"}, Env: map[string]string{"TOKEN": "secret://new/token"}},
	Timeout: 90 * time.Second,
}

const addedText = `new:
  mcp:
    command: npx
    args:
    - -y
    - server
    env:
      TOKEN: secret://new/token
  timeout: 1m30s
`

func indented(text string, n int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.Repeat(" ", n) + line)
	}
	return out.String()
}

func TestAddSourceLeavesTheRestOfTheTextAsItIs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ before, after string }{
		"an empty file": {"", "sources:\n" + indented(addedText, 2)},
		"no section": {
			"server:   {listen: 127.0.0.1:1}   # mine",
			"server:   {listen: 127.0.0.1:1}   # mine\n\nsources:\n" + indented(addedText, 2),
		},
		"among others, in their indentation": {
			"# top\n\nsources:   # here\n    # files\n    a:   {cli: {command: x}}  # one\n\n    b:\n        description: |\n          # not a comment\n\n          text\n        cli: {command: y}\n\n# about the server\nserver: {}\n",
			"# top\n\nsources:   # here\n    # files\n    a:   {cli: {command: x}}  # one\n\n    b:\n        description: |\n          # not a comment\n\n          text\n        cli: {command: y}\n" +
				indented(addedText, 4) + "\n# about the server\nserver: {}\n",
		},
		"an empty section": {
			"sources:\n  # nothing yet\n\nserver: {}\n",
			"sources:\n  # nothing yet\n" + indented(addedText, 2) + "\nserver: {}\n",
		},
		"a section in braces": {
			"# head\nsources: {a: {cli: {command: x}}}  # all\n# tail\n\nserver: {}\n# end\n",
			"# head\nsources: # all\n  a: {cli: {command: x}}\n" + indented(addedText, 2) + "# tail\n\nserver: {}\n# end\n",
		},
		"empty braces": {"server: {}\n# head\nsources: {} # none\n# tail\n", "server: {}\n# head\nsources: # none\n" + indented(addedText, 2) + "# tail\n"},
		"lines of Windows": {
			"sources:\r\n  a: {cli: {command: x}}\r\nserver: {}\r\n",
			"sources:\r\n  a: {cli: {command: x}}\r\n" + indented(addedText, 2) + "server: {}\r\n",
		},
	} {
		path := file(t, tc.before)
		if err := config.AddSource(path, "new", added, false, nil); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.after, textOf(t, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(added, c.Sources["new"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := config.RemoveSource(path, "new"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := textOf(t, path), strings.ReplaceAll(strings.ReplaceAll(tc.after, indented(addedText, 2), ""), indented(addedText, 4), ""); got != want {
			t.Errorf("%s: after the removal:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

func TestAddSourceMakesAMissingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := config.AddSource(path, "new", added, false, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := textOf(t, path), "sources:\n"+indented(addedText, 2); got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestASourceWithSchemasSurvivesTheRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	readOnly := true
	s := config.Source{HTTP: &config.HTTP{BaseURL: "http://a", Tools: []config.HTTPTool{{
		Name:        "t",
		InputSchema: config.JSON(`{"type":"object","properties":{"z":{"maximum":12345678901234567890},"a":{"enum":["yes",null,"1",1.50]}}}`),
		Hints:       config.Hints{ReadOnly: &readOnly},
	}}}}
	if err := config.AddSource(path, "w", s, false, nil); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, c.Sources["w"]); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, textOf(t, path))
	}
}

func TestEditsThatWouldHarmAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	const one = "sources:\n  a: {cli: {command: x}}\n"
	for name, tc := range map[string]struct {
		text, want string
		edit       func(path string) error
	}{
		"a name that is taken": {
			one, "conflict: source a already exists in PATH; replace it: toolroom sources add --force a …",
			func(path string) error { return config.AddSource(path, "a", added, false, nil) },
		},
		"a name that is not there": {
			one, "not_found: source b not found in PATH; list the sources: toolroom sources list",
			func(path string) error { return config.RemoveSource(path, "b") },
		},
		"a whole file in braces": {
			"{sources: {a: {cli: {command: x}}}}", "unsupported: cannot edit PATH safely because of its form; edit the section sources by hand",
			func(path string) error { return config.AddSource(path, "new", added, false, nil) },
		},
		"a closing brace in the first column": {
			"sources: {\n  a: {cli: {command: x}}\n}\n", "unsupported: cannot edit PATH safely because of its form; edit the section sources by hand",
			func(path string) error { return config.AddSource(path, "new", added, false, nil) },
		},
		"a name that is none": {
			one, `internal: sources.a b: "a b" is not a name: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -; `,
			func(path string) error { return config.AddSource(path, "a b", added, false, nil) },
		},
		"a reserved name": {
			one, `conflict: the namespace "Code" is reserved: it is kept for Toolroom's own tools; choose another name, for example Code-server`,
			func(path string) error { return config.AddSource(path, "Code", added, true, nil) },
		},
		"a config with mistakes": {
			"sorces: {}\n", "internal: PATH:1:1: sorces: unknown key; did you mean sources?; ",
			func(path string) error { return config.AddSource(path, "new", added, false, nil) },
		},
		"a starter over a file": {
			one, "conflict: PATH already exists; replace it: toolroom init --force",
			func(path string) error { return config.Init(path, false) },
		},
	} {
		path := file(t, tc.text)
		err := tc.edit(path)
		if err == nil {
			t.Errorf("%s: no error; the file is\n%s", name, textOf(t, path))
			continue
		}
		e := toolroom.AsError(err)
		got := strings.ReplaceAll(string(e.Code)+": "+e.Message+"; "+e.Hints(), path, "PATH")
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.text, textOf(t, path)); diff != "" {
			t.Errorf("%s: the file changed (-want +got):\n%s", name, diff)
		}
	}
}

func TestAddSourceWithForceReplaces(t *testing.T) {
	t.Parallel()
	path := file(t, "sources:\n  # mine\n  new: {cli: {command: x}}\n\n  z: {cli: {command: z}}\n")
	if err := config.AddSource(path, "new", added, true, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("sources:\n  # mine\n\n  z: {cli: {command: z}}\n"+indented(addedText, 2), textOf(t, path)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheStarterIsValidAndMeansTheDefaults(t *testing.T) {
	t.Parallel()
	path := file(t, "")
	if err := config.Init(path, true); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sources) != 0 || c.Tools.Profile != "full" || c.Server.Listen != config.Default().Server.Listen {
		t.Errorf("the starter means %+v", c)
	}
	// Its examples work when the marks before them are taken away.
	examples := strings.ReplaceAll(textOf(t, path), "#   ", "   ")
	examples = strings.Replace(examples, "sources: {}\n", "", 1)
	examples = strings.Replace(examples, "#\n", "sources:\n", 1)
	if c, err := config.Parse("starter", []byte(examples)); err != nil || len(c.Sources) != 5 {
		t.Errorf("the examples: %v, %v", c, err)
	}
	if err := config.AddSource(path, "new", added, false, nil); err != nil {
		t.Error(err)
	}
	if err := config.Init(filepath.Join(t.TempDir(), "new.yaml"), false); err != nil {
		t.Error(err)
	}
}

func FuzzAddAndRemove(f *testing.F) {
	for _, text := range []string{promised, "", "sources: {}", "\r\r", "sources:\n  a:\n    cli: {command: x}\n  # end\n", "sources:\n  a: {cli: {command: \"x\n   y\"}}\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, err := config.Parse("t.yaml", []byte(text))
		if err != nil || len(text) > 1<<12 {
			t.Skip()
		}
		if _, ok := before.Sources["new"]; ok {
			t.Skip()
		}
		path := file(t, text)
		if err := config.AddSource(path, "new", added, false, nil); err != nil {
			if !errors.Is(err, &toolroom.Error{Code: toolroom.CodeUnsupported}) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if err := config.RemoveSource(path, "new"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		after, err := config.Load(path)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, textOf(t, path), err)
		}
		if len(before.Sources) == 0 {
			before.Sources, after.Sources = nil, nil
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%q became %q (-before +after):\n%s", text, textOf(t, path), diff)
		}
	})
}

func TestEditsAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := filepath.Join(t.TempDir(), "toolroom.yaml")
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if err := config.AddSource(path, fmt.Sprintf("s%d", i), added, false, nil); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				agents := map[string]policy.Rules{fmt.Sprintf("a%d", i): {Profile: "minimal"}}
				if err := config.MergeTools(path, policy.Config{Agents: agents}, false); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		c, err := config.Parse(path, []byte(textOf(t, path)))
		if err != nil || len(c.Sources) != 8 || len(c.Tools.Agents) != 8 {
			t.Fatalf("%d sources and %d agents, %v", len(c.Sources), len(c.Tools.Agents), err)
		}
	}
}

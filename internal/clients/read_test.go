package clients_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/clients"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
)

var update = flag.Bool("update", false, "write the golden files")

// place copies the files of a client to folders of the test's own.
func place(t *testing.T, client string) clients.BaseDirs {
	t.Helper()
	root := t.TempDir()
	at := clients.BaseDirs{Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "dir")}
	from := filepath.Join("testdata", client)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		put(t, filepath.Join(root, rel), strings.ReplaceAll(string(text), "@DIR@", filepath.ToSlash(at.Dir)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheServersOfEachClientAreFound(t *testing.T) {
	t.Parallel()
	for _, client := range clients.Imports() {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			at := place(t, client)
			result, err := clients.Read(client, at)
			if err != nil {
				t.Fatal(err)
			}
			text, err := yaml.Dump(result, yaml.WithIndent(2), yaml.WithLineWidth(-1))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.NewReplacer(at.Home, "HOME", at.Dir, "DIR").Replace(string(text))
			golden := filepath.Join("testdata", client+".golden")
			if *update {
				put(t, golden, got)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsFoundCanBeAddedToTheConfig(t *testing.T) {
	t.Parallel()
	for _, client := range clients.Imports() {
		result, err := clients.Read(client, place(t, client))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "toolroom.yaml")
		for _, found := range result.Found {
			if err := config.AddSource(path, found.Name, found.Source, false, nil); err != nil {
				t.Errorf("%s: %s: %v", client, found.Name, err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for ref, value := range found.Secrets {
				if _, err := secret.ParseRef(ref); err != nil {
					t.Errorf("%s: %v", client, err)
				}
				if !strings.Contains(string(text), ref) || strings.Contains(string(text), value) {
					t.Errorf("%s: the config holds the value of %s, or not its reference:\n%s", client, ref, text)
				}
				for _, warning := range found.Warnings {
					if strings.Contains(warning, value) {
						t.Errorf("%s: a warning shows a value: %s", client, warning)
					}
				}
			}
		}
	}
}

func TestErrorsNameThePlacesAndTheNextStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ client, path, text, want string }{
		"no such client": {
			"emacs", "", "",
			`invalid_arguments: unknown client "emacs"; known: claude, codex, cursor, vscode, gemini, windsurf, zed, opencode, goose, copilot`,
		},
		"nothing there": {
			"cursor", "", "",
			"not_found: cursor has no config here; looked at DIR/.cursor/mcp.json, HOME/.cursor/mcp.json; import from another client (claude, codex, cursor, vscode, gemini, windsurf, zed, opencode, goose, copilot), or add a server: toolroom sources add NAME -- COMMAND",
		},
		"not JSON": {
			"claude", ".mcp.json", "{ // one\n  \"mcpServers\": {a}\n}",
			"invalid_arguments: DIR/.mcp.json:2:18: not JSON: invalid character 'a' looking for beginning of object key string; correct the file, or move it away to import the others",
		},
		"an open comment": {
			"claude", ".mcp.json", "{} /* ",
			"",
		},
		"a text without end": {
			"claude", ".mcp.json", `{"a": "`,
			"invalid_arguments: DIR/.mcp.json:1:7: not JSON: unexpected end of JSON input; correct the file, or move it away to import the others",
		},
		"another form": {
			"claude", ".mcp.json", `{"mcpServers": []}`,
			"invalid_arguments: DIR/.mcp.json:1:16: mcpServers is array, want object; correct the file, or move it away to import the others",
		},
		"no object": {
			"claude", ".mcp.json", `[]`,
			"invalid_arguments: DIR/.mcp.json:1:1: the file is array, want object; correct the file, or move it away to import the others",
		},
		"not TOML": {
			"codex", ".codex/config.toml", "a = 1\nb = ?\n",
			"invalid_arguments: DIR/.codex/config.toml:2:5: not TOML: expected value but found '?' instead; correct the file, or move it away to import the others",
		},
		"not YAML": {
			"goose", "../home/.config/goose/config.yaml", "extensions:\n  a: [1\n",
			"invalid_arguments: HOME/.config/goose/config.yaml:3:1: did not find expected ',' or ']'; correct the file, or move it away to import the others",
		},
		"YAML of another form": {
			"goose", "../home/.config/goose/config.yaml", "GOOSE_MODEL: x\nextensions: 3\n",
			"invalid_arguments: HOME/.config/goose/config.yaml:2:13: cannot construct !!int `3` into map[string]libyaml.Node; correct the file, or move it away to import the others",
		},
		"a folder": {
			"claude", ".mcp.json/x", "",
			"invalid_arguments: DIR/.mcp.json cannot be read: read DIR/.mcp.json: is a directory; ",
		},
	} {
		root := t.TempDir()
		at := clients.BaseDirs{Home: filepath.Join(root, "home"), Dir: filepath.Join(root, "dir")}
		if tc.path != "" {
			put(t, filepath.Join(at.Dir, tc.path), tc.text)
		}
		_, err := clients.Read(tc.client, at)
		got := ""
		if err != nil {
			e := toolroom.AsError(err)
			got = strings.NewReplacer(at.Home, "HOME", at.Dir, "DIR").Replace(string(e.Code) + ": " + e.Message + "; " + e.Hints())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// One server that the config cannot hold does not keep the others out.
func TestAServerThatTheConfigRefusesIsSkipped(t *testing.T) {
	t.Parallel()
	at := clients.BaseDirs{Home: t.TempDir(), Dir: t.TempDir()}
	put(t, filepath.Join(at.Dir, ".mcp.json"), `{"mcpServers": {
		"good": {"url": "https://example.com/mcp"},
		"socket": {"type": "ws", "url": "wss://example.com/mcp"},
		"vars": {"command": "x", "env": {"A=B": "c"}}
	}}`)
	result, err := clients.Read("claude", at)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Found) != 1 || result.Found[0].Name != "good" {
		t.Errorf("%+v", result.Found)
	}
	file := filepath.Join(at.Dir, ".mcp.json")
	want := []string{
		file + ": socket: mcp.url: it is not an http or https URL",
		file + `: vars: mcp.env.A=B: "A=B" is not the name of a variable`,
	}
	if diff := cmp.Diff(want, result.Skipped); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAServerWithAReservedNameIsRenamedAndSaysSo(t *testing.T) {
	t.Parallel()
	at := clients.BaseDirs{Home: t.TempDir(), Dir: t.TempDir()}
	put(t, filepath.Join(at.Dir, ".mcp.json"), `{"mcpServers": {
		"code": {"command": "a"}, "Code": {"command": "b"}, "code-server": {"command": "c"}, "tools": {"command": "d"}, "git": {"command": "e"}, "my code": {"command": "f"}
	}}`)
	result, err := clients.Read("claude", at)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, found := range result.Found {
		got[found.Name] = found.Source.MCP.Command + ": " + strings.Join(found.Warnings, "; ")
	}
	want := map[string]string{
		"Code-server":   `b: "Code" is called Code-server: the namespace Code is reserved: it is kept for Toolroom's own tools`,
		"code-server":   `a: "code" is called code-server: the namespace code is reserved: it is kept for Toolroom's own tools`,
		"code-server-2": `c: "code-server" is called code-server-2: code-server is taken by another server, of ` + filepath.Join(at.Dir, ".mcp.json"),
		"tools-server":  `d: "tools" is called tools-server: the namespace tools is reserved: programs have a function of Toolroom by that name`,
		"git":           "e: ",
		"my-code":       `f: "my code" is called my-code: a name of Toolroom has only A-Z a-z 0-9 _ . -`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestServersWithLongNamesOfTheSameBeginningAreAllFound(t *testing.T) {
	t.Parallel()
	for _, long := range []string{strings.Repeat("a", toolroom.MaxIDPart), strings.Repeat("a", toolroom.MaxIDPart-2) + "-2"} {
		at := clients.BaseDirs{Home: t.TempDir(), Dir: t.TempDir()}
		put(t, filepath.Join(at.Dir, ".mcp.json"), `{"mcpServers": {
			"`+long+`x": {"command": "a"}, "`+long+`y": {"command": "b"}, "`+long+`z": {"command": "c"}
		}}`)
		result, err := clients.Read("claude", at)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, found := range result.Found {
			names[found.Name] = len(found.Name) <= toolroom.MaxIDPart
		}
		if len(names) != 3 || slices.Contains(slices.Collect(maps.Values(names)), false) {
			t.Errorf("found %v", names)
		}
	}
}

func TestAWarningNeverShowsWhatLooksLikeASecret(t *testing.T) {
	t.Parallel()
	at := clients.BaseDirs{Home: t.TempDir(), Dir: t.TempDir()}
	put(t, filepath.Join(at.Dir, ".mcp.json"), `{"mcpServers": {"a": {"command": "x", "args": ["--token", "hunter22", "--password=hunter22", "-e", "KEY=hunter22"]},
		"b": {"url": "https://u:hunter22@example.com/mcp"}, "c": {"command": "x", "env": {"A TOKEN": "hunter22", "A-TOKEN": "hunter23"}}}}`)
	result, err := clients.Read("claude", at)
	if err != nil {
		t.Fatal(err)
	}
	for i, warnings := range []int{3, 1, 0} {
		if got := result.Found[i].Warnings; len(got) != warnings || strings.Contains(strings.Join(got, ""), "hunter22") {
			t.Errorf("%s: %q", result.Found[i].Name, got)
		}
	}
	if diff := cmp.Diff(map[string]string{"secret://c/A-TOKEN": "hunter22", "secret://c/A-TOKEN-2": "hunter23"}, result.Found[2].Secrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAForeignFileCannotReferToSecrets(t *testing.T) {
	t.Parallel()
	at := clients.BaseDirs{Home: t.TempDir(), Dir: t.TempDir()}
	put(t, filepath.Join(at.Dir, ".mcp.json"), `{"mcpServers": {"a": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-A": "secret://github/token", "X-B": "Bearer env://GITHUB_TOKEN"}}}}`)
	result, err := clients.Read("claude", at)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"X-A": "secret://a/x-a", "X-B": "secret://a/x-b"}
	if found := result.Found[0]; len(found.Warnings) != 2 || !cmp.Equal(found.Source.MCP.Headers, want) {
		t.Errorf("headers %v, warnings %q", found.Source.MCP.Headers, found.Warnings)
	}
}

func FuzzRead(f *testing.F) {
	for _, unit := range []string{`[`, `{"a":`, `a = [`, `a={a=`, `a.`, `/*`} { // nested deep
		f.Add(strings.Repeat(unit, 20_000))
		f.Add("x = " + strings.Repeat(unit, 20_000))
		f.Add("x = " + strings.Repeat(unit, 3_000_000))
	}
	f.Add(`{"mcpServers": {"a": {"command": "x", "args": ["--token=${X}"], "env": {"A": 1}},},} // end`)
	f.Add("[mcp_servers.a]\ncommand = 'x'\n")
	f.Fuzz(func(t *testing.T, text string) {
		at := clients.BaseDirs{Home: t.TempDir(), Dir: t.TempDir()}
		for client, name := range map[string]string{"claude": ".mcp.json", "codex": ".codex/config.toml"} {
			put(t, filepath.Join(at.Dir, name), text)
			result, err := clients.Read(client, at)
			if err != nil {
				continue
			}
			for _, found := range result.Found {
				if (toolroom.ID{Namespace: found.Name, Name: found.Name}).Validate() != nil {
					t.Errorf("%s: the name %q", client, found.Name)
				}
			}
		}
	})
}

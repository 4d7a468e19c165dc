package clients

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var asServer = Self{Command: "/bin/toolroom", Args: []string{"serve", "--stdio"}}

func entryOf(t *testing.T, client string) (Client, any) {
	t.Helper()
	c, ok := Find(client)
	if !ok {
		t.Fatal("no client", client)
	}
	return c, c.entry(asServer)
}

func TestAnEntryIsAddedAndNothingElseChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ client, before, after string }{
		"no file": {"cursor", "", `{
  "mcpServers": {
    "toolroom": {
      "command": "/bin/toolroom",
      "args": [
        "serve",
        "--stdio"
      ]
    }
  }
}
`},
		"comments, a trailing comma and tabs": {"zed", `// mine
{
	"theme": "One Dark", // dark
	"context_servers": {
		/* notes */
		"a": {"command": "x"}, // the first
		// "b": {},
	},
}
`, `// mine
{
	"theme": "One Dark", // dark
	"context_servers": {
		/* notes */
		"a": {"command": "x"}, // the first
		"toolroom": {
			"command": "/bin/toolroom",
			"args": [
				"serve",
				"--stdio"
			]
		},
		// "b": {},
	},
}
`},
		"a comment behind the last value": {"vscode", `{
    "servers": {
        "a": {"type": "stdio"} // last
    }
}`, `{
    "servers": {
        "a": {"type": "stdio"}, // last
        "toolroom": {
            "type": "stdio",
            "command": "/bin/toolroom",
            "args": [
                "serve",
                "--stdio"
            ]
        }
    }
}`},
		"one line":          {"windsurf", `{"mcpServers":{"a":{}},"x":1}`, `{"mcpServers":{"a":{}, "toolroom": {"command":"/bin/toolroom","args":["serve","--stdio"]}},"x":1}`},
		"one line, a comma": {"windsurf", `{"mcpServers":{"a":{},},"x":1}`, `{"mcpServers":{"a":{}, "toolroom": {"command":"/bin/toolroom","args":["serve","--stdio"]},},"x":1}`},
		"an empty object": {"gemini", `{
  "mcpServers": {},
  "x": 1
}
`, `{
  "mcpServers": {
    "toolroom": {
      "command": "/bin/toolroom",
      "args": [
        "serve",
        "--stdio"
      ]
    }
  },
  "x": 1
}
`},
		"opencode 2": {"opencode", `{
  "mcp": {
    "servers": {
      "a": {"type": "local", "command": ["x"]}
    }
  }
}
`, `{
  "mcp": {
    "servers": {
      "a": {"type": "local", "command": ["x"]},
      "toolroom": {
        "type": "local",
        "command": [
          "/bin/toolroom",
          "serve",
          "--stdio"
        ],
        "enabled": true
      }
    }
  }
}
`},
		"TOML": {"codex", `# my settings
model = "o4" # fast

[mcp_servers.a]
command = "x"
`, `# my settings
model = "o4" # fast

[mcp_servers.a]
command = "x"

[mcp_servers.toolroom]
command = "/bin/toolroom"
args = ["serve", "--stdio"]
`},
		"YAML": {"goose", `# goose
extensions:
  developer: # built in
    type: builtin
    enabled: true

# other things
GOOSE_MODE: auto
`, `# goose
extensions:
  developer: # built in
    type: builtin
    enabled: true
  toolroom:
    type: stdio
    name: toolroom
    enabled: true
    cmd: /bin/toolroom
    args:
    - serve
    - --stdio
    timeout: 300

# other things
GOOSE_MODE: auto
`},
		"YAML without extensions": {"goose", "GOOSE_MODE: auto", `GOOSE_MODE: auto
extensions:
  toolroom:
    type: stdio
    name: toolroom
    enabled: true
    cmd: /bin/toolroom
    args:
    - serve
    - --stdio
    timeout: 300
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, entry := entryOf(t, c.client)
			got, err := client.formOf([]byte(c.before)).add([]byte(c.before), EntryName, entry)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestAnEntryIsRemovedAndNothingElseChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ client, before, after, was string }{
		"in the middle": {"cursor", `{
  "mcpServers": {
    "a": {},
    "b": {"command": "y"}, // gone
    "c": {} // stays
  }
}
`, `{
  "mcpServers": {
    "a": {},
    "c": {} // stays
  }
}
`, `{"command": "y"}`},
		"the last": {"cursor", `{
  "mcpServers": {
    "a": {},
    "b": {
      "command": "y"
    }
  }
}
`, `{
  "mcpServers": {
    "a": {}
  }
}
`, "{\n      \"command\": \"y\"\n    }"},
		"the only one": {"cursor", `{"mcpServers": {"b": {"x": 1}}}`, `{"mcpServers": {}}`, `{"x": 1}`},
		"on one line":  {"cursor", `{"mcpServers": {"a": 1, "b": {"x": 1}, "c": 2}}`, `{"mcpServers": {"a": 1, "c": 2}}`, `{"x": 1}`},
		"TOML": {"codex", `[mcp_servers.a]
command = "x"

# about b
[mcp_servers."b"] # here
command = "y"
# within
[mcp_servers.b.env]
K = "v"

# about c
[mcp_servers.c]
command = "z"
`, `[mcp_servers.a]
command = "x"

# about b

# about c
[mcp_servers.c]
command = "z"
`, "[mcp_servers.\"b\"] # here\ncommand = \"y\"\n# within\n[mcp_servers.b.env]\nK = \"v\"\n"},
		"YAML": {"goose", `extensions:
    a:
        type: stdio # one
    b:
        type: stdio
        args: [x,
          y]
        # within
        timeout: 1
    # about c
    c: {type: builtin}
X: 1
`, `extensions:
    a:
        type: stdio # one
    # about c
    c: {type: builtin}
X: 1
`, "b:\n    type: stdio\n    args: [x,\n      y]\n    # within\n    timeout: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := Find(c.client)
			f := client.formOf([]byte(c.before))
			got, was, err := f.remove([]byte(c.before), "b")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.after, string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.was, string(was)); diff != "" {
				t.Errorf("the entry: -want +got\n%s", diff)
			}
			// What was taken out goes back.
			back, err := f.put(got, "b", was)
			if err != nil {
				t.Fatal(err)
			}
			want, _, _ := f.decode([]byte(c.before))
			have, _, err := f.decode(back)
			if diff := cmp.Diff(want, have); diff != "" || err != nil {
				t.Errorf("put back: %v, -want +got\n%s", err, diff)
			}
		})
	}
}

// A file that the edits would not leave as it is must not be written.
func TestAFileInAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ client, text, want string }{
		"not JSON":            {"cursor", `{"mcpServers": `, "not JSON: line 1"},
		"a list":              {"cursor", `[]`, ""},
		"servers in a list":   {"cursor", `{"mcpServers": []}`, "not a table of servers"},
		"inline TOML":         {"codex", "mcp_servers = {a = {command = \"x\"}}\n", "not a table of its own"},
		"not TOML":            {"codex", "mcp_servers = \n", ""},
		"YAML in braces":      {"goose", "extensions: {a: {type: builtin}}\n", "not a block of lines"},
		"YAML with a mistake": {"goose", "extensions: {", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, entry := entryOf(t, c.client)
			got, err := client.form.add([]byte(c.text), EntryName, entry)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q; wrote %s", err, c.want, got)
			}
		})
	}
}

// A header in a string is not a table.
func TestAStringThatLooksLikeATableIsNotCut(t *testing.T) {
	t.Parallel()
	text := "[mcp_servers.b]\ncommand = \"y\"\nargs = ['''\n[profiles.x]\n''']\n[profiles.x]\nmodel = \"m\"\n"
	if got, _, err := (tomlForm{"mcp_servers"}).remove([]byte(text), "b"); err == nil {
		t.Errorf("no error; wrote %s", got)
	}
}

func TestTheServersOfEveryClientCanBeImported(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range Clients() {
		known[c.Import] = true
		if !slices.Contains(Imports(), c.Import) {
			t.Errorf("the servers of %s are imported as %q, which Imports leaves out", c.Name, c.Import)
		}
	}
	if len(known) != len(Imports()) {
		t.Errorf("Imports returns %q, and the clients have %d names", Imports(), len(known))
	}
}

func TestAClientThatIsNotInstalledHasTheFileOfItsSystem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ client, system, want string }{
		{"claude-desktop", "linux", ".config/Claude/claude_desktop_config.json"},
		{"claude-desktop", "darwin", "Library/Application Support/Claude/claude_desktop_config.json"},
		{"claude-desktop", "windows", "AppData/Roaming/Claude/claude_desktop_config.json"},
		{"zed", "darwin", ".config/zed/settings.json"},
		{"zed", "windows", "AppData/Roaming/Zed/settings.json"},
		{"opencode", "darwin", ".config/opencode/opencode.json"},
		{"codex", "windows", ".codex/config.toml"},
	} {
		c, _ := Find(test.client)
		if got := fileForSystem(c.ownFiles(), test.system); got != test.want {
			t.Errorf("%s on %s: %s, want %s", test.client, test.system, got, test.want)
		}
	}
}

// A system's folder of settings is one below the home, not one above.
func TestAHomeBelowAFolderOfSettingsIsLikeAnother(t *testing.T) {
	t.Parallel()
	c, _ := Find("claude-desktop")
	fileIn := func(home string) string {
		path, _ := c.Path(home)
		file, err := filepath.Rel(home, path)
		if err != nil {
			t.Error(err)
		}
		return file
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	if one, other := fileIn(filepath.Join(nowhere, "Library", "AppData")), fileIn(nowhere); one != other {
		t.Errorf("%s and %s", one, other)
	}
}

func TestEveryClientHasItsOwnFormOfAURL(t *testing.T) {
	t.Parallel()
	for _, c := range Clients() {
		if !c.HTTP {
			continue
		}
		out, err := c.form.add(nil, EntryName, c.entry(Self{URL: "http://127.0.0.1:7070/mcp", Token: "tr_x"}))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, want := range []string{"http://127.0.0.1:7070/mcp", "Bearer tr_x"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s has no %s:\n%s", c.Name, want, out)
			}
		}
		if strings.Contains(string(out), "command") || strings.Contains(string(out), "cmd") {
			t.Errorf("%s has a command beside the URL:\n%s", c.Name, out)
		}
	}
}

package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// connect puts Toolroom into a file of a client.
func connect(t *testing.T, home string, c Client, file string, take ...string) error {
	t.Helper()
	change, err := Prepare(c, file, asServer, take)
	if err != nil {
		return err
	}
	return change.Write(home, &Record{})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Many clients write their file now and then.
func TestAClientThatIsConnectedAgainAfterItHasWrittenItsFileCanBeDisconnected(t *testing.T) {
	t.Parallel()
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "mcp.json")
	c, _ := Find("cursor")
	write(t, file, `{"mcpServers": {"mine": {"command": "x"}}}`)
	if err := connect(t, home, c, file, "mine"); err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(content(t, file), `{"mcpServers"`, `{"history": [1], "mcpServers"`, 1))
	if err := connect(t, home, c, file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Undo(home, c, ""); err != nil {
		t.Fatal(err)
	}
	servers, rest, err := c.form.decode([]byte(content(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"mine": map[string]any{"command": "x"}}, servers); diff != "" || rest["history"] == nil {
		t.Errorf("-want +got\n%s\nrest: %v", diff, rest)
	}
}

func TestAFileThatCannotBeWrittenLeavesTheEarlierConnectionUndoable(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	c, _ := Find("cursor")
	file, was := filepath.Join(dir, "mcp.json"), `{"mcpServers": {"mine": {"command": "x"}}}`
	write(t, file, was)
	if err := connect(t, home, c, file, "mine"); err != nil {
		t.Fatal(err)
	}
	change, err := Prepare(c, filepath.Join(dir, "missing", "other.json"), asServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "missing"), "a file, where the folder should be")
	if err := change.Write(home, &Record{}); err == nil {
		t.Fatal("a file in no folder was written")
	}
	if _, exact, err := Undo(home, c, ""); err != nil || !exact {
		t.Fatal(exact, err)
	}
	if got := content(t, file); got != was {
		t.Errorf("the file is %s", got)
	}
}

// A crash may come between the writes of the record and of the file before.
func TestAFileThatIsOfAnotherRecordIsNotPutBack(t *testing.T) {
	t.Parallel()
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "mcp.json")
	c, _ := Find("cursor")
	write(t, file, `{"mcpServers": {"mine": {"command": "x"}}}`)
	if err := connect(t, home, c, file, "mine"); err != nil {
		t.Fatal(err)
	}
	write(t, Record{name: c.Name}.BackupPath(home), `{"of": "another file"}`)
	if _, exact, err := Undo(home, c, ""); err != nil || exact {
		t.Fatal(exact, err)
	}
	servers, _, err := c.form.decode([]byte(content(t, file)))
	if diff := cmp.Diff(map[string]any{"mine": map[string]any{"command": "x"}}, servers); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}

func TestATableInTwoPartsIsTakenOutOnceAndGoesBack(t *testing.T) {
	t.Parallel()
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "config.toml")
	c, _ := Find("codex")
	text := "[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.b]\ncommand = \"y\"\n\n[mcp_servers.a.env]\nK = \"v\"\n"
	write(t, file, text)
	want, _, err := c.form.decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, home, c, file, "a"); err != nil {
		t.Fatal(err)
	}
	write(t, file, content(t, file)+"\n[profiles.x]\nmodel = \"m\"\n") // so that the entries alone go back
	if _, _, err := Undo(home, c, ""); err != nil {
		t.Fatal(err)
	}
	got, _, err := c.form.decode([]byte(content(t, file)))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}

func TestAServerThatCannotBeTakenOutIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.toml")
	c, _ := Find("codex")
	write(t, file, "[mcp_servers]\na = {command = \"x\"}\n")
	if change, err := Prepare(c, file, asServer, []string{"a"}); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("%v %s", err, change.After)
	}
}

func TestTheCommentOfAnEmptyMappingStays(t *testing.T) {
	t.Parallel()
	c, entry := entryOf(t, "goose")
	for _, line := range []string{"extensions: # mine", "extensions: {} # mine", "extensions:"} {
		out, err := c.form.add([]byte("A: 1\n"+line+"\nB: 2\n"), EntryName, entry)
		if err != nil {
			t.Fatal(err)
		}
		want := "extensions:"
		if strings.Contains(line, "#") {
			want += " # mine"
		}
		if !strings.HasPrefix(string(out), "A: 1\n"+want+"\n  toolroom:\n") {
			t.Errorf("%s became\n%s", line, out)
		}
	}
}

func TestAFileWithAByteOrderMarkIsEdited(t *testing.T) {
	t.Parallel()
	const mark = "\xef\xbb\xbf"
	for client, text := range map[string]string{
		"cursor": mark + "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n",
		"codex":  mark + "[mcp_servers.a]\ncommand = \"x\"\n",
		"goose":  mark + "extensions:\n  a:\n    type: stdio\n",
	} {
		c, _ := Find(client)
		file := filepath.Join(t.TempDir(), "f")
		write(t, file, text)
		change, err := Prepare(c, file, asServer, nil)
		if err != nil {
			t.Errorf("%s: %v", client, err)
			continue
		}
		names, err := c.form.servers(change.After)
		if diff := cmp.Diff([]string{"a", EntryName}, names); diff != "" || err != nil || !strings.HasPrefix(string(change.After), mark) {
			t.Errorf("%s: %v %s\n%q", client, err, diff, change.After)
		}
	}
}

//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestANodeServerInASandboxHasItsFoldersAlone(t *testing.T) {
	r := newRoom(t, nil)
	private := filepath.Join(r.dir, "private.txt")
	if err := os.WriteFile(private, []byte("kept to itself"), 0o600); err != nil {
		t.Fatal(err)
	}
	// It is told that it may use all of the room, and sees its files alone.
	server := npmServer(t, "mcp-server-filesystem", r.dir)
	server["sandbox"] = object{"read": []string{installedFile(t, "run: make peers", "test", "node")}, "write": []string{r.files}}
	r.configure(object{"filesystem": server})
	r.callJSON(0, "filesystem:write_file", `{"path": "`+r.files+`/new.txt", "content": "hello"}`)
	if text, err := os.ReadFile(filepath.Join(r.files, "new.txt")); err != nil || string(text) != "hello" {
		t.Errorf("the server wrote %q, %v", text, err)
	}
	for _, path := range []string{private, "/etc/shadow"} {
		result := r.callJSON(toolroom.ExitFailed, "filesystem:read_text_file", `{"path": "`+path+`"}`)
		if strings.Contains(string(result.Value), "kept to itself") {
			t.Errorf("%s was read: %s", path, result.Value)
		}
	}
	wide := r.toolroom(0, "sources", "list", "-o", "wide").stdout
	if !strings.Contains(wide, "process, standard") {
		t.Errorf("the list does not name the sandbox:\n%s", wide)
	}
}

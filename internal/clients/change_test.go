package clients

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestAFileThatIsGoneStaysGoneWhenItsClientIsDisconnected(t *testing.T) {
	t.Parallel()
	home, c := t.TempDir(), Client{}
	for _, one := range Clients() {
		if one.Name == "cursor" {
			c = one
		}
	}
	file := filepath.Join(t.TempDir(), "mcp.json")
	change, err := Prepare(c, file, Self{Command: "toolroom"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := change.Write(home, &Record{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Undo(home, c, ""); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file is there: %q, %v", text, err)
	}
}

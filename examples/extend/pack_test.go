package extend_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/examples/extend"
	"github.com/toolroom/toolroom/room"
)

func TestACustomPack(t *testing.T) {
	t.Parallel()
	r, err := room.Open(t.Context(), room.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := extend.AddGit(r); err != nil {
		t.Fatal(err)
	}
	if err := extend.AddNotes(r, "notes"); err != nil {
		t.Fatal(err)
	}
	call := func(tool string, args toolroom.Args, into any) *toolroom.Result {
		result := r.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: args.JSON()})
		if result.OK() && into != nil {
			if err := result.Decode(into); err != nil {
				t.Fatal(err)
			}
		}
		return result
	}
	dir := t.TempDir()
	if result := call("git:status", toolroom.Args{"path": dir}, nil); result.OK() || result.Error.Code != toolroom.CodeExecutionFailed {
		t.Errorf("a folder without a repository: %+v", result)
	}
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "a b.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var status extend.Status
	if call("git:status", toolroom.Args{"path": dir}, &status); status.Clean || len(status.Files) != 1 || status.Files[0] != (extend.Change{State: "??", Path: "a b.txt"}) {
		t.Errorf("%+v", status)
	}
	call("notes:write", toolroom.Args{"name": "a", "text": "hello"}, nil)
	var note extend.Note
	if call("notes:read", toolroom.Args{"name": "a"}, &note); note.Text != "hello" {
		t.Errorf("%+v", note)
	}
	if result := call("notes:read", toolroom.Args{"name": "b"}, nil); result.OK() || result.Error.Code != toolroom.CodeNotFound {
		t.Errorf("%+v", result)
	}
}

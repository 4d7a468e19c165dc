package code

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

func TestASandboxThatBreaksOffSaysThatItsMemoryWasLittle(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code   toolroom.Code
		memory int64
		said   bool
	}{
		{toolroom.CodeExecutionFailed, 1000, true},
		{toolroom.CodeSandboxUnavailable, 1 << 20, true},
		{toolroom.CodeExecutionFailed, 0, false}, // no limit
		{toolroom.CodeExecutionFailed, 256 << 20, false},
		{toolroom.CodeTimeout, 1000, false},
	} {
		hint := toolroom.AsError(addMemoryHint(toolroom.Errorf(tt.code, "it ended").WithHint("old"), tt.memory)).Hint
		if said := strings.Contains(hint, "its limit of memory"); said != tt.said || !said && hint != "old" {
			t.Errorf("%s with %d bytes: %q", tt.code, tt.memory, hint)
		}
	}
	if err := addMemoryHint(nil, 1000); err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsMissingInAnEngineWithoutFiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ kind, disk, want string }{
		{"FileNotFoundError", engine.NoFiles, "programs have no files in the engine py: choose the runtime process, or another that has a folder for them"},
		{"FileNotFoundError", "size of the tmpfs", ""},
		{"ValueError", engine.NoFiles, ""},
	} {
		got := noFilesHint(&bridge.Failure{Type: tt.kind}, &engine.Result{Engine: "py", Held: map[sandbox.Limit]string{sandbox.LimitDisk: tt.disk}})
		if got != tt.want {
			t.Errorf("%s, %s: %q", tt.kind, tt.disk, got)
		}
	}
}

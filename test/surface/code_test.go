package surface

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/sandbox"
)

// codeDoors are programs that make the call, one for each engine and each way a
// language has to call a tool.
func codeDoors() []door {
	const (
		python = "call_tool(%q, %s)"
		js     = "await call_tool(%q, %s)"
		shell  = "tool %s '%s' || exit 7"
	)
	var doors []door
	for _, c := range []struct{ engine, language, call string }{
		{"js", "javascript", js},
		{"py-lite", "python", python},
		{"py-native", "python", python},
		{"process", "python", python},
		{"process", "javascript", js},
		{"process", "shell", shell},
		{"host", "shell", shell},
	} {
		doors = append(doors, door{
			name: "code mode, " + c.language + " on " + c.engine, surface: "code", through: "code:execute",
			call: func(t *testing.T, f *fixture, a attempt) bool {
				f.needs(t, c.engine)
				program := room.Program{Language: c.language, Runtime: c.engine, Code: fmt.Sprintf(c.call, a.spelled, a.arguments)}
				if c.engine == "host" {
					program.Profile = "dev" // it holds to nothing more
				}
				r, err := f.room.Execute(t.Context(), toolroom.Call{Identity: a.who}, program)
				if err != nil || r.Execution == nil || len(r.Execution.Calls) != 1 {
					t.Fatalf("the program did not make the call: %v, %+v", err, r)
				}
				return r.Error == nil
			},
		})
	}
	return doors
}

// needs ends the test where an engine cannot run.
func (f *fixture) needs(t *testing.T, engine string) {
	t.Helper()
	for _, e := range f.room.Engines(t.Context()) {
		switch {
		case e.Name != engine:
		case e.State == sandbox.Available:
			return
		case os.Getenv("CI") == "true":
			t.Fatalf("%s cannot run here: %s", engine, e.Reason)
		default:
			t.Skipf("%s cannot run here: %s", engine, e.Reason)
		}
	}
	t.Fatalf("there is no engine %s", engine)
}

// installEngines puts the engine that is no part of Toolroom into a home.
func installEngines(t *testing.T, home string) {
	t.Helper()
	monty := os.Getenv("TOOLROOM_MONTY")
	if monty == "" {
		monty, _ = exec.LookPath("monty")
	}
	if monty == "" {
		return
	}
	if err := os.MkdirAll(filepath.Join(home, "engines"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(monty, filepath.Join(home, "engines", "monty")); err != nil {
		t.Fatal(err)
	}
}

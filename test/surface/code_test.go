package surface

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/sandbox"
)

// codeHandlers returns handlers that make the call in a program, for each engine and
// each way in which a language calls a tool.
func codeHandlers() []handler {
	const (
		// The programs make the arguments when they run, so that no effects are
		// predicted from them before.
		python = "import json\ncall_tool(%q, json.loads(%q))"
		js     = "await call_tool(%q, JSON.parse(%q))"
		shell  = "tool %s '%s' || exit 7"
	)
	handlers := []handler{
		{name: "code mode over HTTP", surface: "code", through: "code:execute", call: func(t *testing.T, f *fixture, a attempt) bool {
			status, answer := f.post(t, a.who, "/api/v1/execute", programOn("js", fmt.Sprintf(js, a.spelled, a.arguments)))
			return status == http.StatusOK && !strings.Contains(string(answer), `"error":{`)
		}},
		{name: "code mode over MCP", surface: "code", through: "code:execute", call: func(t *testing.T, f *fixture, a attempt) bool {
			return callMCP(t, connect(t, f, a.who, "2026-07-28"), "code__execute", programOn("js", fmt.Sprintf(js, a.spelled, a.arguments)))
		}},
		{name: "code mode on the command line", surface: "code", through: "code:execute", call: func(t *testing.T, f *fixture, a attempt) bool {
			code, out := f.command(t, append(identityFlags(a.who), "exec", "-l", "js", "--engine", "js", fmt.Sprintf(js, a.spelled, a.arguments))...)
			if code == toolroom.ExitError {
				t.Fatal(out)
			}
			return code == toolroom.ExitOK
		}},
		{name: "code mode as the tool of an agent", surface: "code", through: "code:execute", call: func(t *testing.T, f *fixture, a attempt) bool {
			tool := f.room.AsTool(toolroom.Call{Identity: a.who})
			_, result := tool.Call(t.Context(), json.RawMessage(programOn("js", fmt.Sprintf(js, a.spelled, a.arguments))))
			return result.Error == nil
		}},
		{name: "code mode, a module over HTTP on wasm", surface: "code", through: "code:execute", call: func(t *testing.T, f *fixture, a attempt) bool {
			status, answer := f.post(t, a.who, "/api/v1/execute", string(toolroom.Args(map[string]any{
				"language": "wasm", "module": packedModule(t), "command": []string{"call", a.spelled, a.arguments},
			}).JSON()))
			return status == http.StatusOK && !strings.Contains(string(answer), `"error":{`)
		}},
		{name: "Go, a call that is resumed", surface: "code", through: "gate:unlock", call: afterReplay},
	}
	for _, c := range []struct{ engine, language, call string }{
		{"js", "javascript", js},
		{"py-lite", "python", python},
		{"py", "python", python},
		{"py-native", "python", python},
		{"process", "python", python},
		{"process", "javascript", js},
		{"process", "shell", shell},
		{"host", "shell", shell},
	} {
		handlers = append(handlers, handler{
			name: "code mode, " + c.language + " on " + c.engine, surface: "code", through: "code:execute",
			call: func(t *testing.T, f *fixture, a attempt) bool {
				f.requireEngine(t, c.engine)
				program := toolroom.Program{Language: c.language, Runtime: c.engine, Code: fmt.Sprintf(c.call, a.spelled, a.arguments)}
				if c.engine == "host" {
					program.Profile = "dev" // host supports no stricter profile
				}
				r, err := f.room.Execute(t.Context(), toolroom.Call{Identity: a.who}, program)
				if err != nil || r.Execution == nil || len(r.Execution.Calls) != 1 {
					t.Fatalf("the program did not make the call: %v, %+v", err, r)
				}
				return r.Error == nil
			},
		})
	}
	return handlers
}

// moduleOnce holds the programs of enginetest for WebAssembly. Compressing them takes a quarter
// of a second.
var moduleOnce = sync.OnceValues(func() ([]byte, error) {
	module, err := enginetest.BuildModule()
	if err != nil {
		return nil, err
	}
	return app.PackModule(module)
})

// packedModule returns the programs of enginetest for WebAssembly.
func packedModule(t *testing.T) []byte {
	t.Helper()
	module, err := moduleOnce()
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// programOn returns the arguments of code:execute for a program.
func programOn(engine, code string) string {
	return string(toolroom.Args(map[string]any{"language": "javascript", "engine": engine, "code": code}).JSON())
}

// afterReplay makes the attempt in a program that first waits for a person. The program
// then starts again, gets the results of its earlier calls from its journal, and
// continues.
func afterReplay(t *testing.T, f *fixture, a attempt) bool {
	after := f.lastSequence(t)
	code := fmt.Sprintf("await call_tool('gate:unlock', {command: %q}); await call_tool(%q, JSON.parse(%q))", t.Name()+a.name, a.spelled, a.arguments)
	r, err := f.room.Execute(t.Context(), toolroom.Call{Identity: a.who, NoWait: true}, toolroom.Program{Language: "javascript", Runtime: "js", Code: code})
	if err != nil || toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired {
		t.Fatalf("it does not wait for approval: %v, %v", err, r.Err())
	}
	id := r.Error.Approval
	if _, err := f.room.Answer(t.Context(), id, toolroom.Answer{Approve: true, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	return f.receiptAfter(t, after, a.tool).Error == nil
}

// requireEngine skips the test if an engine cannot run. In CI it fails the test.
func (f *fixture) requireEngine(t *testing.T, engine string) {
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

// installEngines installs the engine that is not part of Toolroom in a home.
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

func TestAModuleThatWaitsForAPersonIsRestarted(t *testing.T) {
	t.Parallel()
	f := serve(t)
	after := f.lastSequence(t)
	r, err := f.room.Execute(t.Context(), toolroom.Call{NoWait: true}, toolroom.Program{
		Language: "wasm", Module: packedModule(t), Command: []string{"call", "gate:unlock", `{"command": "the module"}`},
	})
	if err != nil || toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired {
		t.Fatalf("it does not wait for approval: %v, %v", err, r.Err())
	}
	id := r.Error.Approval
	if _, err := f.room.Answer(t.Context(), id, toolroom.Answer{Approve: true, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if got := f.receiptAfter(t, after, "code:execute"); got.Error != nil {
		t.Errorf("the resumed run ended with %v", got.Error)
	}
}

package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// program is a source that is a script, with one sub-command in its help.
const programConfig = `sources:
  box:
    cli: {command: %s}
  closed:
    cli: {command: %s}
    tools: {exclude: [burn]}
`

const programScript = `#!/bin/sh
case "$1" in
--help) printf 'Usage: box <command>\n\nCommands:\n  status   tell\n  version  tell which\n' ;;
*) echo "did $*" ;;
esac
`

func programRoom(t *testing.T) *app.App {
	t.Helper()
	r := freshRoom(t)
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// freshRoom is one whose sources nobody has asked for their tools.
func freshRoom(t *testing.T) *app.App {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "box")
	if err := os.WriteFile(script, []byte(programScript), 0o755); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "toolroom.yaml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(programConfig, "%s", script)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, app.Options{Home: t.TempDir(), Helper: self, ConfigFile: config})
	if err := app.Register(r, "math:add", "Adds.", func(_ context.Context, in struct {
		A int `json:"a"`
		B int `json:"b"`
	},
	) (int, error) {
		return in.A + in.B, nil
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatAProgramCallsIsLookedAtBeforeItRuns(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	for _, c := range []struct{ language, code, value, failure string }{
		// Sub-commands that have no tool of their own.
		{"javascript", `return await cli("box").commit("a", {message: "m"}).text()`, `"did commit --message=m a\n"`, ""},
		{"javascript", `return (await box.rev_parse("HEAD")).stdout`, `"did rev-parse HEAD\n"`, ""},
		{"javascript", `return (await call_tool("box:gc")).stdout`, `"did gc\n"`, ""},
		{"javascript", `return (await tools.box.status()).stdout`, `"did status\n"`, ""},
		{"javascript", `return await run_chain([{tool: "box:gc"}])`, `{"stdout":"did gc\n","stderr":"","exit_code":0,"ok":true}`, ""},
		{"javascript", `await cli.box.statsu()`, "", "did you mean box:status"},
		{"javascript", `await cli.closed.burn()`, "", `there is no tool "closed:burn"`},
		{"javascript", `return (await cli.closed.gc()).stdout`, `"did gc\n"`, ""},

		// What no tool has.
		{"javascript", `await math.add({a: 1, b: 2}); await call_tool("math:ad", {a: 1})`, "", `there is no tool "math:ad": did you mean await tools.math.add({"a":0,"b":0})?`},
		{"javascript", `await math.add({a: 1, b: 2}); await tools.mth.add({})`, "", "there is no tools.mth: did you mean tools.math?"},

		// The toolexec form, under whatever name it comes.
		{"python", "sum := run(\"math:add\", {a: 1, b: 2})\nif (sum > 2) { sum := run(\"math:add\", {a: sum, b: 4}) }\nsum", "7", ""},
		{"javascript", "tries := 0\nwhile (tries < 3) { try { run(\"math:add\", {a: \"x\", b: 1}); break } catch (e) { tries++; if (e.retryable) break } }\ntries", "3", ""},
		{"python", "sum := run(\"math:add\", {a: 1, b: 2})\ndef f(): pass", "", "line 2"},
	} {
		result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: c.language, Code: c.code})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.failure == "" && (result.Error != nil || string(result.Value) != c.value):
			t.Errorf("%s\ngave %s, %v, want %s", c.code, result.Value, result.Error, c.value)
		case c.failure != "" && (result.Error == nil || !strings.Contains(result.Error.Error(), c.failure)):
			t.Errorf("%s\nended with %v, want %q", c.code, result.Error, c.failure)
		case strings.HasPrefix(c.failure, "there is no tools") && len(result.Execution.Calls) > 0:
			t.Errorf("%s\nran before it was refused: %+v", c.code, result.Execution.Calls)
		}
	}
}

func TestTheToolexecFormSentAsPythonSaysThatItIsJavaScript(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	const code = "sum := run(\"math:add\", {a: 1, b: 2})\nsum"
	result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "python", Code: code})
	if err != nil || result.Execution == nil || result.Execution.Language != "javascript" || !strings.Contains(result.Execution.Why, "line 1") {
		t.Errorf("%v, %+v", err, result)
	}
	for _, p := range []toolroom.Program{{Engine: "py"}, {Session: "work"}} {
		p.Language, p.Code = "python", code
		result, err := r.Execute(t.Context(), toolroom.Call{}, p)
		if err != nil || result.Error == nil || result.Error.Code != toolroom.CodeInvalidArguments || !strings.Contains(result.Error.Hint, "javascript") {
			t.Errorf("%+v: %v, %+v", p, err, result)
		}
	}
}

func TestAnEngineThatCannotHoldALimitIsPassedOver(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "javascript", Code: "return 1", MemoryBytes: 1536 << 20})
	if err != nil || result.Error != nil || result.Execution.Engine != "process" || !strings.Contains(result.Execution.Why, "at most 1024 MiB") {
		t.Errorf("%v, %+v", err, result)
	}
	result, err = r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "javascript", Code: "return 1", Engine: "js", MemoryBytes: 1536 << 20})
	if err != nil || result.Error == nil || result.Error.Code != toolroom.CodeLimitNotEnforceable {
		t.Errorf("%v, %+v", err, result)
	}
}

func TestAResultTellsTheLimitsThatWereAskedAndThoseThatWereGiven(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{
		Language: "javascript", Code: "return 1", Profile: "hardened", TimeoutMS: 3_600_000, MemoryBytes: 128 << 20, OutputBytes: 1 << 40, MaxCalls: 7,
	})
	if err != nil || result.Error != nil {
		t.Fatalf("%v, %+v", err, result)
	}
	x := result.Execution
	asked := toolroom.ExecutionLimits{Wall: time.Hour, Memory: 128 << 20, Output: 1 << 40, Calls: 7}
	given := toolroom.ExecutionLimits{Wall: 10 * time.Minute, Memory: 128 << 20, Output: 64 << 20, Calls: 7}
	if x.Asked != asked || x.Limits != given || x.Profile != "hardened" || x.Held["memory"] == "" {
		t.Errorf("asked %+v, given %+v, profile %q, held %v", x.Asked, x.Limits, x.Profile, x.Held)
	}
	told := strings.Join(x.Lowered(), "\n")
	if want := "time: 1h0m0s asked, 10m0s given\noutput: 1099511627776 bytes asked, 67108864 given"; told != want {
		t.Errorf("it tells\n%s\nwant\n%s", told, want)
	}
	result, err = r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "javascript", Code: "return 1"})
	if err != nil || result.Execution.Asked != (toolroom.ExecutionLimits{}) || result.Execution.Limits.Calls != 100 || len(result.Execution.Lowered()) > 0 {
		t.Errorf("nothing was asked: %v, %+v", err, result.Execution)
	}
}

func TestTheFirstProgramThatNamesASourceFindsItsTools(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"cli.box.status()", "cli('box').version()", "tools['box']['status']()", "call_tool('box:status', {})"} {
		result, err := freshRoom(t).Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "javascript", Code: "return (await " + code + ").stdout"})
		if err != nil || result.Error != nil || !strings.HasPrefix(result.Text(), "did ") {
			t.Errorf("%s: %v, %+v", code, err, result)
		}
	}
}

func TestALanguageMayBeWrittenShort(t *testing.T) {
	t.Parallel()
	r := programRoom(t)
	for short, code := range map[string]string{"js": "return 1 + 1", "ts": "const n: number = 2; return n"} {
		got, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: short, Code: code})
		if err != nil || string(got.Value) != "2" {
			t.Errorf("%s: %s, %v %v", short, got.Value, got.Error, err)
		}
	}
	if got, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "cobol", Code: "STOP RUN."}); err != nil || got.Error == nil || got.Error.Code != toolroom.CodeInvalidArguments {
		t.Errorf("cobol: %+v %v", got, err)
	}
}

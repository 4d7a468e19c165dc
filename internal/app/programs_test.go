package app_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

func TestProgramsCallCommandLineProgramsWithoutASource(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no uname")
	}
	system, err := exec.Command("uname", "-s").Output()
	if err != nil {
		t.Fatal(err)
	}
	const (
		missing = "there is no program nosuch-program on PATH"
		closed  = "no source runs the program uname, and cli.mode is "
	)
	for _, c := range []struct{ config, code, stdout, fails string }{
		{"cli: {mode: ambient}", `return await cli.uname({s: true}).text()`, string(system), ""},
		{"cli: {mode: ambient}", `return await cli("uname")({s: true}).text()`, string(system), ""},
		{"cli: {mode: ambient}", `return await cli["uname"]({s: true}).text()`, string(system), ""},
		{"cli: {mode: ambient}", `const c = "uname"; return await cli(c)({s: true}).text()`, string(system), ""},
		{"cli: {allow: [uname]}", `return await cli.uname({s: true}).text()`, string(system), ""},
		{"cli: {mode: ambient}", `return await cli.nosuch_program({s: true}).text()`, "", "there is no program nosuch_program on PATH"},
		{"cli: {mode: ambient}", `const c = "nosuch-program"; return await cli(c).go({s: true})`, "", missing},
		{"cli: {mode: ambient}", `return await cli("nosuch-program").go({s: true})`, "", missing},
		{"cli: {mode: ambient}\ntools: {deny: [\"uname:*\"]}", `return await cli.uname({s: true}).text()`, "", "policy forbids local to call uname:uname"},
		{"cli: {mode: ambient}", `await cli.uname.all(); return await cli.uname({s: true}).text()`, "", "write tools.uname.uname(...)"},
		{"cli: {mode: ambient}", `return await call_tool("uname:uname", {s: true})`, "", `there is no tool "uname:uname"`},
		{"cli: {mode: disabled, allow: [uname]}", `return await cli.uname({s: true})`, "", closed + "disabled"},
		{"", `return await cli.uname({s: true})`, "", closed + "allowlist"},
		{"", `const c = "uname"; return await cli(c).go()`, "", closed + "allowlist"},
	} {
		t.Run(c.config+" "+c.code, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			r := openWith(t, c.config, app.Options{Helper: self})
			result, err := r.Execute(t.Context(), toolroom.Call{Identity: toolroom.Identity{Subject: "local"}}, toolroom.Program{Language: "javascript", Code: c.code})
			if err != nil {
				t.Fatal(err)
			}
			if c.fails == "" {
				if result.Error != nil || result.Text() != c.stdout {
					t.Errorf("got %q, %v", result.Text(), result.Error)
				}
				return
			}
			if result.Error == nil || !strings.Contains(result.Error.Message, c.fails) {
				t.Errorf("got %q, %v; want %s", result.Text(), result.Error, c.fails)
			}
		})
	}
}

func TestAProgramThatCallsANameWhichIsNoToolLearnsWhatToWrite(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, "cli: {mode: ambient}")
	const git = "cli.git is not the program here, because other tools have its name: tools.git has add, "
	for _, c := range []struct{ code, value, fails string }{
		{`return await cli("git")("status")`, "", git},
		{`return await cli.git("status")`, "", git},
		{`return await cli("git").rev_parse()`, "", git},
		{`return await call_tool("git:rev_parse")`, "", `there is no tool "git:rev_parse"`},
		{`return await tools.file_list({path: "."})`, "", "there is no tools.file_list: did you mean await tools.file.list("},
		{`return await tools.file({path: "."})`, "", "tools.file is a namespace: call one of its tools: edit, list, "},
		{`return await tools.w_t1()`, "", "there is no tools.w_t1: tools has "},
		{`const tools = {w_t1: () => "own"}; return tools.w_t1()`, "own", ""},
	} {
		result, err := w.Execute(t.Context(), toolroom.Call{Identity: toolroom.Identity{Subject: "local"}}, toolroom.Program{Language: "javascript", Code: c.code})
		if err != nil {
			t.Fatal(err)
		}
		if c.fails == "" && (result.Error != nil || result.Text() != c.value) || c.fails != "" && (result.Error == nil || !strings.Contains(result.Error.Message, c.fails)) {
			t.Errorf("%s: got %q, %v", c.code, result.Text(), result.Error)
		}
	}
}

package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// foreign is the sandbox of this machine under the name of another driver, so that commands
// run in it as they do in a container.
type foreign struct{ sandbox.Driver }

func (foreign) Name() string { return "gvisor" }

func foreignDriver(t *testing.T) func(app.Runtimes) []sandbox.Driver {
	guest := smallGuest(t)
	return func(app.Runtimes) []sandbox.Driver { return []sandbox.Driver{foreign{process.New(guest, nil)}} }
}

func newForeignWorkshop(t *testing.T, config string) *workshop {
	w := newWorkshopWith(t, config, func(o *app.Options) {
		o.Drivers, o.Guest = foreignDriver(t), app.Guest{Path: smallGuest(t)}
	})
	w.needsSandbox()
	return w
}

func TestCommandsRunInTheSandboxOfADriver(t *testing.T) {
	t.Parallel()
	w := newForeignWorkshop(t, "builtin: {shell: {runtime: gvisor, env: {GIVEN: by-config}}}")
	w.put("a.txt", "hello\n")
	exec := func(args map[string]any) (text string, r *toolroom.Result) {
		t.Helper()
		r = w.call("shell:exec", args)
		if r.Error != nil && r.Error.Code != toolroom.CodeExecutionFailed {
			t.Fatal(r.Error)
		}
		return r.Content[0].Text, r
	}
	if text, r := exec(map[string]any{"command": `wc -c a.txt; pwd; echo made > b.txt; echo "$GIVEN $HOME"; touch ~/kept; echo err >&2; exit 3`}); r.Error == nil ||
		text != fmt.Sprintf("6 a.txt\n%s\nby-config /run/home\n[stderr]\nerr\n[exit code 3]", w.dir) {
		t.Errorf("%q %v", text, r.Error)
	}
	if made, err := os.ReadFile(filepath.Join(w.dir, "b.txt")); string(made) != "made\n" {
		t.Errorf("%q %v", made, err)
	}
	if text, _ := exec(map[string]any{"command": "ls ~; cat", "stdin": "typed"}); text != "kept\ntyped" {
		t.Errorf("%q", text)
	}
	if _, r := exec(map[string]any{"command": "kill -TERM $$"}); !strings.Contains(string(r.Value), `"signal":"terminated"`) {
		t.Errorf("%s", r.Value)
	}
	if text, _ := exec(map[string]any{"command": "echo x >> ../toolroom.yaml; cat ../home/*"}); !strings.Contains(text, "exit code") {
		t.Errorf("outside of the folders: %q", text)
	}

	// A session keeps its folder and its variables, and none of those of a sandbox.
	_, _ = exec(map[string]any{"session": "s", "command": "mkdir sub; cd sub; export FOO='two words'"})
	if text, _ := exec(map[string]any{"session": "s", "command": "echo $FOO $PWD"}); text != "two words "+w.dir+"/sub" {
		t.Errorf("%q", text)
	}
	states, err := filepath.Glob(filepath.Join(filepath.Dir(w.dir), "home", "builtin", "shell", "sessions", "*", "*.json"))
	if err != nil || len(states) != 1 {
		t.Fatal(states, err)
	}
	if state, err := os.ReadFile(states[0]); string(state) != `{"dir":"`+w.dir+`/sub","env":{"FOO":"two words"}}` {
		t.Errorf("%s %v", state, err)
	}

	// The one of this test has no device for it; drivers/test/runtimes shows the others.
	if r := w.call("shell:exec", map[string]any{"command": "tty", "pty": true}); r.Error == nil || !strings.Contains(r.Error.Message, "no terminal") || !strings.Contains(r.Error.Message, "leave pty out") {
		t.Errorf("a terminal: %v", r.Error)
	}
	if r := w.call("process:start", map[string]any{"command": "nosuchprogram", "args": []string{"x"}}); r.Error == nil || r.Error.Code != toolroom.CodeNotFound {
		t.Errorf("a missing program: %v", r.Error)
	}
	begun := time.Now()
	if r := w.call("shell:exec", map[string]any{"command": "echo begun; (trap '' TERM; sleep 300)", "timeout": 500}); r.Error == nil || r.Error.Code != toolroom.CodeTimeout ||
		!strings.HasSuffix(r.Error.Message, "it had printed:\nbegun") || time.Since(begun) > time.Minute {
		t.Errorf("%v", r.Error)
	}
}

func TestProcessesRunInTheSandboxOfADriver(t *testing.T) {
	t.Parallel()
	w := newForeignWorkshop(t, "builtin: {shell: {runtime: gvisor}}")
	started := w.call("process:start", map[string]any{"command": "echo one; echo two >&2; sleep 300"})
	if !started.OK() {
		t.Fatal(started.Error)
	}
	pid := numberAt(t, started, "pid")
	text := ""
	for offset := int64(0); !strings.Contains(text, "one") || !strings.Contains(text, "two"); {
		r := w.call("process:output", map[string]any{"pid": pid, "offset": offset, "wait": 20_000})
		if next := numberAt(t, r, "next_offset"); next > offset {
			offset, text = next, text+r.Content[0].Text
		} else {
			t.Fatalf("%q %v", text, r.Error)
		}
	}
	if r := w.call("process:kill", map[string]any{"pid": pid, "signal": "SIGKILL"}); !strings.Contains(string(r.Value), `"signal":"killed"`) {
		t.Errorf("%s %v", r.Value, r.Error)
	}
}

func TestAProcessInTheSandboxOfADriverEndsInOrder(t *testing.T) {
	t.Parallel()
	w := newForeignWorkshop(t, "builtin: {shell: {runtime: gvisor}}")
	started := w.call("process:start", map[string]any{"command": "trap 'echo bye; exit 7' TERM; echo begun; while :; do sleep 0.01; done"})
	if !started.OK() {
		t.Fatal(started.Error)
	}
	pid := numberAt(t, started, "pid")
	wait := func(want string) {
		t.Helper()
		text := ""
		for offset := int64(0); !strings.Contains(text, want); {
			r := w.call("process:output", map[string]any{"pid": pid, "offset": offset, "wait": 20_000})
			if next := numberAt(t, r, "next_offset"); next > offset {
				offset, text = next, text+r.Content[0].Text
			} else {
				t.Fatalf("%q %v", text, r.Error)
			}
		}
	}
	wait("begun")
	if r := w.call("process:kill", map[string]any{"pid": pid}); !r.OK() {
		t.Fatal(r.Error)
	}
	wait("bye")
	for range 2000 {
		r := w.call("process:status", map[string]any{"pid": pid})
		if strings.Contains(string(r.Value), `"exit_code":7`) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the process did not end by itself")
}

func numberAt(t *testing.T, r *toolroom.Result, name string) int64 {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(r.Value, &value); err != nil {
		t.Fatalf("%v: %s %v", err, r.Value, r.Error)
	}
	n, ok := value[name].(float64)
	if !ok {
		t.Fatalf("no %s in %s", name, r.Value)
	}
	return int64(n)
}

// What a sandbox cannot enforce is refused, and the rest holds.
func TestRulesHoldInTheSandboxOfADriver(t *testing.T) {
	t.Parallel()
	w := newForeignWorkshop(t, "builtin: {shell: {runtime: gvisor, network: guarded}}\ntools: {deny: ['effect:file.read:**/secret/**', 'effect:file.write:**/fixed.txt']}")
	if err := os.Mkdir(filepath.Join(w.dir, "secret"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.put("secret/key", "TOPSECRET")
	w.put("fixed.txt", "fixed")
	for _, line := range []string{"cat s*t/k*", "d=secret; cd $d && cat *", "mv secret other; cat other/key", "cp -r . /work/copy; cat /work/copy/secret/key", "ln -s secret l; cat l/key"} {
		if r := w.call("shell:exec", map[string]any{"command": line}); strings.Contains(string(r.Value), "TOPSECRET") {
			t.Errorf("%s: %s", line, r.Value)
		}
	}
	for _, line := range []string{"f=fixed; echo x > $f.txt", "f=fixed; mv $f.txt b; echo x > $f.txt", "rm -f f*t"} {
		r := w.call("shell:exec", map[string]any{"command": line})
		if text, err := os.ReadFile(filepath.Join(w.dir, "fixed.txt")); string(text) != "fixed" {
			t.Fatalf("%s: %q %v %s", line, text, err, r.Value)
		}
	}
	for name, tt := range map[string]struct{ url, want string }{
		"permitted":   {w.site, "Page"},
		"metadata":    {"http://169.254.169.254/", "403"},
		"own address": {"http://127.0.0.1:1/", "403"},
	} {
		// Go and curl ask no proxy for the loopback unless they are told.
		r := w.call("shell:exec", map[string]any{"command": `curl -s -m 20 -w ' %{http_code}' --noproxy "" -x "$HTTP_PROXY" ` + tt.url})
		if !strings.Contains(string(r.Value), tt.want) {
			t.Errorf("%s: %s %v", name, r.Value, r.Error)
		}
	}
	if r := w.call("shell:exec", map[string]any{"command": "curl -s -m 5 --noproxy '*' " + w.site}); strings.Contains(string(r.Value), "Page") {
		t.Errorf("past the proxy: %s", r.Value)
	}
}

// The programs of an image are not this machine's, so a rule about one ends all commands.
func TestARuleAboutProgramsEndsCommandsInTheSandboxOfADriver(t *testing.T) {
	t.Parallel()
	newForeignWorkshop(t, "builtin: {shell: {runtime: gvisor}}") // skips where commands cannot run
	denied := newWorkshopWith(t, "builtin: {shell: {runtime: gvisor}}\ntools: {deny: ['effect:command:rm']}", func(o *app.Options) {
		o.Drivers, o.Guest = foreignDriver(t), app.Guest{Path: smallGuest(t)}
	})
	if r := denied.call("shell:exec", map[string]any{"command": "a=r; b=m; $a$b a.txt"}); r.Error == nil || r.Error.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(r.Error.Message, "cannot be enforced in gvisor") {
		t.Errorf("%s %v", r.Value, r.Error)
	}
}

// The policy may name the sandbox of a call.
func TestPolicyChoosesTheSandboxOfACommand(t *testing.T) {
	t.Parallel()
	w := newForeignWorkshop(t, `policy: {rules: ['@engine("gvisor") permit(principal, action, resource) when { resource.namespace == "shell" };']}`)
	if r := w.call("shell:exec", map[string]any{"command": "echo $TOOLROOM_WORK"}); !r.OK() || r.Content[0].Text != "/work" {
		t.Errorf("%s %v", r.Value, r.Error)
	}
	if r := w.call("process:start", map[string]any{"command": "true"}); !r.OK() || numberAt(t, r, "pid") > 10_000_000 {
		t.Errorf("%s %v", r.Value, r.Error)
	}
}

//go:build integration

package runtimes

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// The built-in commands run in each driver that can show folders of this machine.
func TestCommandsRunInContainers(t *testing.T) {
	t.Parallel()
	for runtime, driver := range map[string]func(t *testing.T) sandbox.Driver{
		"docker": func(t *testing.T) sandbox.Driver {
			d, _ := dockerDriver(t, docker.Options{})
			return d
		},
		"docker/runsc": func(t *testing.T) sandbox.Driver {
			program(t, "runsc", "gvisor.dev/gvisor/runsc")
			d, _ := dockerDriver(t, docker.Options{})
			return d
		},
		"containerd": func(t *testing.T) sandbox.Driver {
			return containerdDriver(t, containerd.Options{Address: containerdEngine(t)})
		},
		"gvisor": func(t *testing.T) sandbox.Driver {
			program(t, "runsc", "gvisor.dev/gvisor/runsc")
			return gvisor.New(gvisor.Options{})
		},
	} {
		t.Run(strings.ReplaceAll(runtime, "/", " "), func(t *testing.T) {
			t.Parallel()
			top := folder(t)
			work, file := filepath.Join(top, "work"), filepath.Join(top, "toolroom.yaml")
			if err := os.MkdirAll(filepath.Join(work, "secret"), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{file: "builtin: {shell: {runtime: " + runtime + "}}\ntools: {deny: ['effect:file.read:**/secret/**']}\n", filepath.Join(work, "secret", "key"): "TOPSECRET"} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := driver(t)
			room, err := app.Open(t.Context(), app.Options{
				Home: filepath.Join(top, "home"), Workspace: work, ConfigFile: file, Environ: []string{"HOME=" + top}, Guest: app.Guest{Path: made.guest},
				Drivers: func(app.Runtimes) []sandbox.Driver { return []sandbox.Driver{d} },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { room.Close() })
			exec := func(command string, timeout int) *toolroom.Result {
				return room.Run(t.Context(), toolroom.Call{Tool: "shell:exec", Arguments: toolroom.Args{"command": command, "session": "s", "timeout": timeout}.JSON()})
			}
			r := exec("echo made > a.txt; mkdir sub; cd sub; export FOO='two words'; touch ~/kept; id -u", 60_000)
			if !r.OK() || !strings.Contains(string(r.Value), `"isolation":"`+strings.Split(runtime, "/")[0]) {
				t.Fatalf("%s %v", r.Value, r.Error)
			}
			if text, err := os.ReadFile(filepath.Join(work, "a.txt")); string(text) != "made\n" {
				t.Errorf("%q %v", text, err)
			}
			if r := exec(`echo "$FOO $PWD"; ls ~`, 60_000); !r.OK() || r.Content[0].Text != "two words "+work+"/sub\nkept" {
				t.Errorf("%s %v", r.Value, r.Error)
			}
			for _, line := range []string{"cat ../s*t/key", "mv ../secret ../other; cat ../other/key", "cat " + top + "/toolroom.yaml " + top + "/home/*", "cat < /dev/tcp/1.1.1.1/80"} {
				if r := exec(line, 60_000); r.OK() || strings.Contains(string(r.Value), "TOPSECRET") {
					t.Errorf("%s: %s", line, r.Value)
				}
			}
			call := func(tool string, args toolroom.Args) *toolroom.Result {
				return room.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: args.JSON()})
			}
			r = call("shell:exec", toolroom.Args{"command": "test -t 0 -a -t 1 -a -t 2 && stty size; read x; echo got $x", "pty": true, "rows": 40, "columns": 100, "stdin": "typed\n", "timeout": 60_000})
			if !r.OK() || !strings.Contains(r.Content[0].Text, "40 100") || !strings.Contains(r.Content[0].Text, "got typed") {
				t.Errorf("in a terminal: %s %v", r.Value, r.Error)
			}
			typesIntoTerminal(t, call)
			// gVisor beside the other engines may take seconds to start a command.
			if r := exec("echo begun; sleep 300", 15_000); r.Error == nil || r.Error.Code != toolroom.CodeTimeout || !strings.Contains(r.Error.Message, "begun") {
				t.Errorf("%s %v", r.Value, r.Error)
			}
		})
	}
}

// typesIntoTerminal types lines and Ctrl-C into a background process, and kills another one
// with all its children.
func typesIntoTerminal(t *testing.T, call func(tool string, args toolroom.Args) *toolroom.Result) {
	t.Helper()
	type state struct {
		PID    int64  `json:"pid"`
		Next   int64  `json:"next_offset"`
		State  string `json:"state"`
		Signal string `json:"signal"`
	}
	run := func(tool string, args toolroom.Args) (s state, text string) {
		t.Helper()
		r := call(tool, args)
		if !r.OK() {
			t.Fatalf("%s: %v", tool, r.Error)
		}
		if err := json.Unmarshal(r.Value, &s); err != nil {
			t.Fatal(err)
		}
		return s, r.Content[0].Text
	}
	begin := func(command string, pty bool) (pid int64, until func(want string)) {
		t.Helper()
		begun, _ := run("process:start", toolroom.Args{"command": command, "pty": pty})
		all, offset := "", int64(0)
		return begun.PID, func(want string) {
			t.Helper()
			for !strings.Contains(all, want) {
				s, text := run("process:output", toolroom.Args{"pid": begun.PID, "offset": offset, "wait": 20_000})
				if s.Next == offset {
					t.Fatalf("no %q in %q", want, all)
				}
				all, offset = all+text, s.Next
			}
		}
	}
	pid, until := begin("trap 'echo interrupted; exit 5' INT; echo ready; while read x; do echo got $x; done", true)
	until("ready")
	run("process:write", toolroom.Args{"pid": pid, "input": "one\n"})
	until("got one")
	run("process:write", toolroom.Args{"pid": pid, "input": "\x03"})
	until("interrupted")
	pid, until = begin("trap 'echo ended; exit 6' TERM; echo begun; while :; do sleep 0.05; done", false)
	until("begun")
	run("process:kill", toolroom.Args{"pid": pid})
	until("ended")
	// Each child says its turn in a file of the working folder until it is killed.
	pid, until = begin("(trap '' TERM HUP INT; while :; do date +%N > turn; sleep 0.05; done) & trap '' TERM; echo begun; wait", false)
	until("begun")
	if s, _ := run("process:kill", toolroom.Args{"pid": pid, "signal": "SIGKILL"}); s.Signal != "killed" {
		t.Errorf("killed: %+v", s)
	}
	if r := call("shell:exec", toolroom.Args{"command": "rm -f turn; sleep 0.5; test ! -e turn"}); !r.OK() {
		t.Errorf("a child goes on after its tree was killed: %s %v", r.Value, r.Error)
	}
}

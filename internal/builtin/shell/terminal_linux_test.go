package shell_test

import (
	"os"
	"os/signal"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/source"
)

func TestACommandRunsInATerminalIfAsked(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		const ask = `test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM; read -r line; echo "got $line"`
		for _, tt := range []struct {
			args map[string]any
			want string
		}{
			{map[string]any{"pty": true, "stdin": "yes\n"}, "24 80\r\nxterm-256color\r\ngot yes\r\n"},
			{map[string]any{"pty": true, "stdin": "no end", "rows": 50, "columns": 132}, "50 132\r\nxterm-256color\r\ngot no end\r\n"},
			{map[string]any{"pty": true}, "24 80\r\nxterm-256color\r\ngot \r\n"},
			{map[string]any{"stdin": "yes\n"}, "got yes\n"},
		} {
			tt.args["command"] = ask
			got, err := k.run(tt.args)
			// What is typed is echoed, before or after what the program prints.
			printed := regexp.MustCompile(`(?m)^(yes\r\n|no end|\^D\x08\x08)+`).ReplaceAllString(got.Stdout, "")
			if err != nil || printed != tt.want || got.Stderr != "" || got.ExitCode != 0 {
				t.Errorf("%v: %+v, %q, %v", tt.args, got, printed, err)
			}
		}
		// A session keeps its folder, and the limit ends the tree, in a terminal as well.
		if got, err := k.run(map[string]any{"command": "mkdir -p d && cd d", "session": "s", "pty": true}); err != nil || got.ExitCode != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		if got, err := k.run(map[string]any{"command": "pwd", "session": "s", "pty": true}); err != nil || !strings.Contains(got.Stdout, k.dir+"/d\r\n") {
			t.Errorf("%+v, %v", got, err)
		}
		start := time.Now()
		if _, err := k.run(map[string]any{"command": "trap '' HUP TERM; (while :; do echo x >> alive; sleep 0.05; done) & sleep 60", "timeout": 1500, "pty": true}); toolroom.CodeOf(err) != toolroom.CodeTimeout || time.Since(start) > 20*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		k.quiet()
	})
}

func TestAnInteractiveProgramIsTypedInto(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		if signal.Ignored(os.Interrupt) { // programs would inherit that, as they do not from a server
			signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		}
		k := newKit(t, runtime, folder.Options{})
		call := func(tool, who string, args map[string]any) (*source.Output, error) {
			return k.process.Call(t.Context(), request("process:"+tool, who, args))
		}
		out, err := call("start", "a", map[string]any{"command": "trap 'echo interrupted' INT; while read -r line; do echo \"<$line>\"; done; echo over", "pty": true, "input": "first\n"})
		p, err := decode[shell.Status](t, out, err)
		if err != nil {
			t.Fatal(err)
		}
		var at int64
		see := func(want string) {
			t.Helper()
			seen := ""
			for range 200 {
				out, err := call("output", "a", map[string]any{"pid": p.PID, "offset": at, "wait": 200})
				text, err := decode[shell.OutputResult](t, out, err)
				if err != nil {
					t.Fatal(err)
				}
				at, seen = text.NextOffset, seen+text.Output
				if strings.Contains(seen, want) {
					return
				}
			}
			t.Fatalf("%q is not in %q", want, seen)
		}
		enter := func(text string) {
			t.Helper()
			out, err := call("write", "a", map[string]any{"pid": p.PID, "input": text})
			if r, err := decode[shell.WriteResult](t, out, err); err != nil || r.Bytes != len(text) || r.NextOffset < at {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		see("<first>")
		enter("second\n")
		see("<second>")
		enter("\x03")
		see("interrupted")
		if _, err := call("write", "b", map[string]any{"pid": p.PID, "input": "x\n"}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
			t.Errorf("another identity: %v", err)
		}
		enter("\x04")
		see("over")
		for range 200 {
			if _, err = call("write", "a", map[string]any{"pid": p.PID, "input": "x\n"}); err != nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("an ended process: %v", err)
		}

		out, err = call("start", "a", map[string]any{"command": "sleep", "args": []string{"60"}, "pty": true})
		if p, err = decode[shell.Status](t, out, err); err != nil {
			t.Fatal(err)
		}
		if _, err := call("write", "a", map[string]any{"pid": p.PID, "input": strings.Repeat("x\n", 30_000)}); toolroom.CodeOf(err) != toolroom.CodeTimeout {
			t.Errorf("nobody reads: %v", err)
		}
		out, err = call("start", "a", map[string]any{"command": "cat", "input": "piped"})
		if p, err = decode[shell.Status](t, out, err); err != nil {
			t.Fatal(err)
		}
		at = 0
		see("piped")
		if _, err := call("write", "a", map[string]any{"pid": p.PID, "input": "x"}); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("without a terminal: %v", err)
		}
	})
}

func TestTypingBehindAnInputThatNobodyReadsEnds(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		call := func(tool string, args map[string]any) (*source.Output, error) {
			return k.process.Call(t.Context(), request("process:"+tool, "a", args))
		}
		out, err := call("start", map[string]any{"command": "sleep", "args": []string{"20"}, "pty": true, "input": strings.Repeat("x\n", 100_000)})
		p, err := decode[shell.Status](t, out, err)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := call("write", map[string]any{"pid": p.PID, "input": "y\n"}); toolroom.CodeOf(err) != toolroom.CodeTimeout || time.Since(start) > 15*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

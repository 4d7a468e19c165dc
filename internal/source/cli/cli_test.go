package cli

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script makes a program of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	// A process that is forked meanwhile would hold the file open for writing,
	// and it could not be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, command string, configure ...func(*Config)) *Source {
	t.Helper()
	o := Config{
		Namespace: "p", Command: command, Owner: proc.Owner(),
		Env: func(context.Context) ([]string, error) { return proc.Environ(os.Environ(), nil), nil },
	}
	for _, f := range configure {
		f(&o)
	}
	s := New(o)
	t.Cleanup(func() { s.Close() })
	return s
}

func run(ctx context.Context, s *Source, tool, args string, emit func(toolroom.Event)) (Result, *source.Output, error) {
	if emit == nil {
		emit = func(toolroom.Event) {}
	}
	out, err := s.Call(ctx, &source.Request{
		Tool: toolroom.ID{Namespace: "p", Name: tool}, Arguments: json.RawMessage(args), Emit: emit,
	})
	var r Result
	if err == nil {
		err = json.Unmarshal(out.Value, &r)
	}
	return r, out, err
}

// everything is a program with sub-commands, in cobra's style.
const everything = `
case "$1" in
--help) cat <<'HELP'
Usage:  program [OPTIONS] COMMAND

A program for tests

Commands:
  echo        Print the arguments
  fail        Fail with exit code 3
  sleep       Sleep for long

Options:
  -v, --verbose    Say more
HELP
;;
echo) shift; if [ "$1" = --help ]; then printf 'Usage: program echo [OPTIONS]\n\nOptions:\n  -n, --count int      How often\n      --name string    A name\n  -q, --quiet          Say less\n      --[no-]color     Colour\n'; else for a in "$@"; do printf '<%s>\n' "$a"; done; cat; fi ;;
fail) [ "$2" = --help ] || { echo out; echo problem >&2; exit 3; } ;;
sleep) [ "$2" = --help ] || { echo $$ >> "$PIDS"; sleep 300 & echo $! >> "$PIDS"; wait; } ;;
esac
`

func TestTheContractOfSources(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	program := script(t, everything)
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "p",
		Open: func(t *testing.T) source.Source {
			return open(t, program, func(c *Config) {
				c.Env = func(context.Context) ([]string, error) {
					return proc.Environ(os.Environ(), map[string]string{"PIDS": pids}), nil
				}
			})
		},
		Good:    sourcetest.Call{Tool: "echo", Arguments: `{"_":["a b"],"count":2}`, Want: `{"stdout":"<--count>\n<2>\n<a b>\n","stderr":"","exit_code":0,"ok":true}`},
		Failing: sourcetest.Call{Tool: "fail", Arguments: `{}`},
		Slow:    sourcetest.Call{Tool: "sleep", Arguments: `{}`},
		Running: func() int { return alive(t, pids) },
		Bound:   20 * time.Second,
		Skip:    sourcetest.Skip{Change: "the tools of a program change only when their help is read"},
	})
}

// alive counts the processes of a file of process ids that still run.
func alive(t *testing.T, file string) int {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n := 0
	for _, pid := range strings.Fields(string(data)) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			n++
		}
	}
	return n
}

func TestToolsComeFromTheHelpAndFlagsFromThatOfTheSubCommand(t *testing.T) {
	t.Parallel()
	s := open(t, script(t, everything))
	var mu sync.Mutex
	changes := 0
	s.Notify(source.Events{ToolsChanged: func() { mu.Lock(); changes++; mu.Unlock() }})
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools {
		names = append(names, tool.ID.Name)
	}
	if want := []string{"program", "echo", "fail", "sleep"}; !slices.Equal(names, want) {
		t.Fatalf("got %v, want %v", names, want)
	}
	if strings.Contains(string(tools[1].InputSchema), "count") || changes != 0 {
		t.Error("the help of a sub-command was read before anyone asked")
	}
	refined, err := s.Refine(t.Context(), tools[1].ID)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct{ Type any }
	}
	if err := json.Unmarshal(refined.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Properties["quiet"].Type != "boolean" || schema.Properties["count"].Type == nil || changes != 1 {
		t.Errorf("got %+v after %d changes", schema, changes)
	}
}

func TestArgumentsNeverBecomeFlagsUnlessMeant(t *testing.T) {
	t.Parallel()
	s := open(t, script(t, everything))
	for _, c := range []struct{ args, stdout, problem string }{
		{args: `{"_":["a;b","$(id)","*"]}`, stdout: "<a;b>\n<$(id)>\n<*>\n"},
		{args: `{"quiet":true,"name":"-x"}`, stdout: "<--name=-x>\n<--quiet>\n"},
		{args: `{"color":false}`, stdout: "<--no-color>\n"},
		{args: `{"quiet":false}`, stdout: ""},
		{args: `{"name":["a","b"]}`, stdout: "<--name>\n<a>\n<--name>\n<b>\n"},
		{args: `{"n":12345678901234567890}`, stdout: "<--count>\n<12345678901234567890>\n"},
		{args: `{"stdin":"typed"}`, stdout: "typed"},
		{args: `{"_":["--","-x"]}`, stdout: "<-->\n<-x>\n"},
		{args: `{"_":["--output=/etc/passwd"]}`, problem: "looks like a flag"},
		{args: `{"_":["-"]}`, stdout: "<->\n"},
		{args: `{"nmae":"x"}`, problem: `unknown flag "nmae"`},
		{args: `{"max_depth":2,"x":true,"deep":true}`, stdout: "<--deep>\n<--max-depth=2>\n<-x>\n"},
		{args: `{"a=b":"x"}`, problem: "is not a valid flag name"},
		{args: `{"quiet":"x"}`, problem: "takes no value"},
		{args: `{"name":true}`, problem: "takes a value"},
		{args: `{"name":{"a":1}}`, problem: "string or a number"},
	} {
		r, _, err := run(t.Context(), s, "echo", c.args, nil)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) || toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Errorf("%s: got %v, want %q", c.args, err, c.problem)
			}
			continue
		}
		if err != nil || r.Stdout != c.stdout || !r.OK {
			t.Errorf("%s: got %q, %v", c.args, r.Stdout, err)
		}
	}
}

func TestAFailedProgramIsAFailedToolWithItsOutput(t *testing.T) {
	t.Parallel()
	r, out, err := run(t.Context(), open(t, script(t, everything)), "fail", `{}`, nil)
	if err != nil || !out.Failed || r.ExitCode != 3 || r.Stdout != "out\n" || r.Stderr != "problem\n" {
		t.Errorf("got %+v, failed %v, %v", r, out.Failed, err)
	}
}

func TestOutputIsSentLineByLineAndCapped(t *testing.T) {
	t.Parallel()
	s := open(t, script(t, `[ "$1" = --help ] || { echo one; echo two; head -c 20000000 /dev/zero | tr '\0' x; }`))
	var lines []string
	r, _, err := run(t.Context(), s, "program", `{}`, func(e toolroom.Event) { lines = append(lines, string(e.Chunk)) })
	if err != nil {
		t.Fatal(err)
	}
	const kept = maxOutput - 2 // a line end has two bytes in JSON
	if len(r.Stdout) != kept || r.DroppedBytes != 20000008-kept {
		t.Errorf("kept %d, dropped %d", len(r.Stdout), r.DroppedBytes)
	}
	if len(lines) < 2 || lines[0] != `"one\n"` || lines[1] != `"two\n"` {
		t.Errorf("got %d lines", len(lines))
	}
}

func TestSecretsOfTheParentAreNotInherited(t *testing.T) {
	t.Setenv("API_TOKEN", "hush")
	r, _, err := run(t.Context(), open(t, script(t, `[ "$1" = --help ] || env`)), "program", `{}`, nil)
	if err != nil || strings.Contains(r.Stdout, "hush") || !strings.Contains(r.Stdout, "PATH=") {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
}

func TestModesAreCheckedAtEachCall(t *testing.T) {
	t.Parallel()
	program := script(t, `echo ran`)
	for _, c := range []struct {
		policy Policy
		code   toolroom.Code
	}{
		{Policy{}, ""},
		{Policy{Mode: Allowlist, Allow: []string{program}}, ""},
		{Policy{Mode: Allowlist, Allow: []string{"program"}}, toolroom.CodeDenied}, // a path is not a name on PATH
		{Policy{Mode: Allowlist, Allow: []string{"git"}}, toolroom.CodeDenied},
		{Policy{Mode: Ambient, Allow: []string{"git"}}, ""},
		{Policy{Mode: Disabled, Allow: []string{"program"}}, toolroom.CodeDenied},
	} {
		s := open(t, program, func(o *Config) { o.Policy = c.policy })
		if _, _, err := run(t.Context(), s, "program", `{}`, nil); toolroom.CodeOf(err) != c.code {
			t.Errorf("%+v: got %v", c.policy, err)
		}
	}
}

func TestAMissingProgramSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := open(t, "no-such-program-anywhere")
	_, err := s.Tools(t.Context())
	if e := toolroom.AsError(err); e == nil || e.Code != toolroom.CodeUpstreamUnavailable || e.Hint == "" {
		t.Errorf("got %+v", e)
	}
}

func TestHelpOfRealProgramsIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program  string
		commands []string          // some that must be found
		flags    map[string]string // flag, and the type its schema must have
		none     bool              // the program has no sub-commands
	}{
		{program: "git --help", commands: []string{"clone", "status", "commit", "rebase"}},
		{program: "git status -h", flags: map[string]string{"short": `"boolean"`, "column": `["boolean","string"]`}, none: true},
		{program: "git log -h", none: true},
		{program: "curl --help", flags: map[string]string{"data": `["string","number","array"]`, "include": `"boolean"`}, none: true},
		{program: "tar --help", flags: map[string]string{"file": `["string","number","array"]`, "extract": `"boolean"`}, none: true},
		{program: "go help", commands: []string{"build", "test", "vet"}},
	} {
		t.Run(c.program, func(t *testing.T) {
			words := strings.Fields(c.program)
			if _, err := exec.LookPath(words[0]); err != nil {
				missing(t, words[0])
			}
			text, _ := exec.Command(words[0], words[1:]...).CombinedOutput()
			h := parseHelp(string(text))
			for _, want := range c.commands {
				if !slices.ContainsFunc(h.commands, func(found subcommand) bool { return found.name == want }) {
					t.Errorf("the command %s was not found among %v", want, h.commands)
				}
			}
			if c.none && len(h.commands) > 0 {
				t.Errorf("it has no commands, but these were found: %v", h.commands)
			}
			for name, want := range c.flags {
				f, _, err := h.findFlag(name)
				if err != nil {
					t.Error(err)
					continue
				}
				if got, _ := json.Marshal(f.schema()["type"]); string(got) != want {
					t.Errorf("%s has type %s, want %s", name, got, want)
				}
			}
		})
	}
}

// missing skips a test on a bare machine, and fails it where everything must be.
func missing(t *testing.T, program string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing: install it", program)
	}
	t.Skipf("%s is not here; its help is not read", program)
}

func TestHelpOfOtherStylesIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		style, text string
		commands    []string
		flags       map[string]string
	}{
		{
			"headings in capitals and names with a colon",
			"Work with a host.\n\nUSAGE\n  hub <command> <subcommand> [flags]\n\nCORE COMMANDS\n  auth:        Log in\n  pr:          Manage changes\n\nFLAGS\n  -a, --assignee login   Filter by login\n      --web              Open in the browser\n",
			[]string{"auth", "pr"},
			map[string]string{"assignee": `["string","number","array"]`, "web": `"boolean"`},
		},
		{
			"defaults behind the name",
			"Show things.\n\nOptions:\n    -A, --all-namespaces=false:\n\tEverywhere.\n    -o, --output='':\n\tFormat.\n    --limit=0:\n\tHow many.\n\nUsage:\n  ctl get [flags]\n",
			nil,
			map[string]string{"all_namespaces": `"boolean"`, "output": `["string","number","array"]`, "limit": `["number","string"]`},
		},
		{
			"values named in capitals for both forms",
			"usage: tool [-h] [--count N]\n\noptions:\n  -h, --help            show this\n  -n N, --count N       how many\n  -o FILE, --out FILE   where to\n",
			nil,
			map[string]string{"count": `["number","string"]`, "out": `["string","number","array"]`, "help": `"boolean"`},
		},
	} {
		t.Run(c.style, func(t *testing.T) {
			t.Parallel()
			h := parseHelp(c.text)
			var found []string
			for _, command := range h.commands {
				found = append(found, command.name)
			}
			if !slices.Equal(found, c.commands) {
				t.Errorf("commands are %v, want %v", found, c.commands)
			}
			for name, want := range c.flags {
				f, _, err := h.findFlag(name)
				if err != nil {
					t.Error(err)
					continue
				}
				if got, _ := json.Marshal(f.schema()["type"]); string(got) != want {
					t.Errorf("%s has type %s, want %s", name, got, want)
				}
			}
		})
	}
}

func FuzzHelpIsReadWithoutHarm(f *testing.F) {
	f.Add(everything)
	f.Add("  -f, --file=ARCHIVE   use\n --[no-]x[=<y>]\n-\n--=\n")
	f.Fuzz(func(t *testing.T, text string) {
		h := parseHelp(text)
		if !json.Valid(h.schema()) {
			t.Errorf("the schema is not JSON: %s", h.schema())
		}
	})
}

// A program may leave a process behind that holds its output, such as a server of its own.
func TestHelpOfAProgramThatLeavesAProcessBehindIsRead(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		missing(t, "setsid")
	}
	s := open(t, script(t, "echo '  --size N  the size'\n[ \"$1\" = --help ] && setsid sleep 30 &\n"))
	tools, err := s.Tools(t.Context())
	if err != nil || !strings.Contains(string(tools[0].InputSchema), `"size"`) {
		t.Fatalf("%+v, %v", tools, err)
	}
}

func TestAResultIsWholeThoughItsChunksAreTakenSlowly(t *testing.T) {
	t.Parallel()
	taken := filepath.Join(t.TempDir(), "taken")
	s := open(t, script(t, `[ "$1" = --help ] && exit; echo 0; until [ -e `+taken+` ]; do sleep 0.01; done; seq 1 9999`))
	take := sync.OnceFunc(func() {
		if err := os.WriteFile(taken, nil, 0o600); err != nil {
			t.Error(err)
		}
		time.Sleep(drainTime + drainTime/2) // the program has ended long before
	})
	r, _, err := run(t.Context(), s, "program", `{}`, func(toolroom.Event) { take() })
	if want := 48_890; err != nil || len(r.Stdout) != want {
		t.Errorf("the result has %d of %d bytes: %v", len(r.Stdout), want, err)
	}
}

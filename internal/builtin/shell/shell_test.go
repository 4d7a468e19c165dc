//go:build linux

package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/source"
)

// TestMain runs this binary as the init of a sandbox, if asked to.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	if len(os.Args) > 2 && os.Args[1] == "inside" {
		os.Exit(inside(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// kit are the packs on a folder of their own.
type kit struct {
	t             *testing.T
	dir           string
	exec, process source.Source
	shell         *shell.Shell
}

func newKit(t *testing.T, runtime string, o folder.Options) *kit {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return newKitIn(t, dir, runtime, o, nil)
}

func newKitIn(t *testing.T, dir, runtime string, o folder.Options, change func(*shell.Options)) *kit {
	t.Helper()
	folders, err := folder.Open([]string{dir}, o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options := shell.Options{
		Folders: folders, Runtime: runtime, Init: []string{self, lockdown.InitArg}, Environ: os.Environ(), State: t.TempDir(), Scratch: t.TempDir(),
		Env: func(context.Context) (map[string]string, error) {
			return map[string]string{"FROM_CONFIG": "secret"}, nil
		},
	}
	if change != nil {
		change(&options)
	}
	s := shell.New(options)
	if missing := s.Available(t.Context()); missing != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	k := &kit{t, dir, s.Pack(nil).Source(), s.ProcessPack(nil).Source(), s}
	t.Cleanup(func() {
		_ = k.exec.Close()
		_ = k.process.Close()
	})
	return k
}

func request(tool, who string, args map[string]any) *source.Request {
	return &source.Request{Tool: toolroom.MustParseID(tool), Arguments: builtin.Arguments(args), Identity: toolroom.Identity{Subject: who}, Emit: func(toolroom.Event) {}}
}

func (k *kit) run(args map[string]any) (shell.ExecResult, error) {
	k.t.Helper()
	out, err := k.exec.Call(k.t.Context(), request("shell:exec", "", args))
	return decode[shell.ExecResult](k.t, out, err)
}

func decode[T any](t *testing.T, out *source.Output, err error) (T, error) {
	t.Helper()
	var v T
	if err == nil {
		if bad := json.Unmarshal(out.Value, &v); bad != nil {
			t.Fatal(bad)
		}
	}
	return v, err
}

// on runs a test in both runtimes.
func on(t *testing.T, test func(t *testing.T, runtime string)) {
	t.Parallel()
	for _, runtime := range []string{shell.RuntimeProcess, shell.RuntimeHost} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			test(t, runtime)
		})
	}
}

func TestCommandsReturnTheirOutput(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		got, err := k.run(map[string]any{"command": "cat; echo err >&2; pwd; echo x > made; exit 3", "stdin": "input\n"})
		if err != nil || got.Stdout != "input\n"+k.dir+"\n" || got.Stderr != "err\n" || got.ExitCode != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		info, err := os.Stat(filepath.Join(k.dir, "made"))
		if err != nil || info.Size() != 2 {
			t.Errorf("the file was not made: %v", err)
		}
		if err := os.Remove(filepath.Join(k.dir, "made")); err != nil {
			t.Errorf("the file does not belong to this user: %v", err)
		}
	})
}

func TestASessionKeepsItsFolderAndVariables(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		for _, step := range []struct{ session, command, want string }{
			{"s", "mkdir sub; cd sub; export X='a b'; Y=1; exit 0", ""},
			{"s", "pwd; echo $X $Y $FROM_CONFIG", k.dir + "/sub\na b secret\n"},
			{"t", "pwd; echo $X", k.dir + "\n\n"},
			{"s", "cd ..; rmdir sub", ""},
			{"s", "pwd", k.dir + "\n"},
			{"", "cd /; export X=1", ""},
			{"", "pwd; echo $X", k.dir + "\n\n"},
		} {
			got, err := k.run(map[string]any{"command": step.command, "session": step.session})
			if err != nil || got.Stdout != step.want {
				t.Errorf("%q in %q: %+v, %v; want %q", step.command, step.session, got, err, step.want)
			}
		}
		if _, err := k.run(map[string]any{"command": "mkdir sub; cd sub", "session": "u"}); err != nil {
			t.Fatal(err)
		}
		_, err := k.run(map[string]any{"command": "pwd", "session": "u", "cwd": "sub"})
		if hint := toolroom.AsError(err).Hint; toolroom.CodeOf(err) != toolroom.CodeNotFound || !strings.Contains(hint, "the session is in "+k.dir+"/sub") {
			t.Errorf("a folder from the one before: %v, hint %q", err, hint)
		}
		other, err := k.exec.Call(t.Context(), request("shell:exec", "other", map[string]any{"command": "echo $X", "session": "s"}))
		if got, err := decode[shell.ExecResult](t, other, err); err != nil || got.Stdout != "\n" {
			t.Errorf("another identity has the variables: %+v, %v", got, err)
		}
		narrow := request("shell:exec", "", map[string]any{"command": "echo $X", "session": "s"})
		narrow.Identity.Groups = []string{"guests"}
		other, err = k.exec.Call(t.Context(), narrow)
		if got, err := decode[shell.ExecResult](t, other, err); err != nil || got.Stdout != "\n" {
			t.Errorf("other groups have the variables: %+v, %v", got, err)
		}
	})
}

// The sandbox shows the folders and the installed programs, and no network.
func TestTheSandboxShowsNothingElse(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	base := t.TempDir()
	for _, name := range []string{"home/key", "home/toolroom.yaml", "home/store/key", "rules", "toolroom.yaml"} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("KEY"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := newKitIn(t, base, shell.RuntimeProcess, folder.Options{
		Hidden: []string{filepath.Join(base, "home"), filepath.Join(base, "home", "store")}, Fixed: []string{filepath.Join(base, "rules"), filepath.Join(base, "toolroom.yaml"), filepath.Join(base, "home", "toolroom.yaml")},
	}, nil)
	for _, command := range []string{
		"cat " + outside + "/secret", "ls " + os.Getenv("HOME") + "/.ssh", "cat /etc/shadow", "cat home/key", "ls home | grep key", "echo x > rules", "rm toolroom.yaml",
		"mv rules r", "echo x > /usr/bin/x", "mount -t tmpfs x /mnt", "umount home", fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%d", listener.Addr().(*net.TCPAddr).Port),
		"ls /sys/kernel", "echo x > /home/x",
	} {
		got, err := k.run(map[string]any{"command": command})
		if err != nil || got.ExitCode == 0 {
			t.Errorf("%q: %+v, %v", command, got, err)
		}
		if strings.Contains(got.Stdout, "SECRET") || strings.Contains(got.Stdout, "KEY") {
			t.Errorf("%q shows %s", command, got.Stdout)
		}
	}
	if got, err := k.run(map[string]any{"command": "echo runs"}); err != nil || got.Stdout != "runs\n" {
		t.Errorf("nothing runs: %+v, %v", got, err)
	}
	if !strings.Contains(k.exec.(source.Sandboxed).Isolation(t.Context(), request("shell:exec", "", nil)), "ns") {
		t.Error("the isolation does not name the namespaces")
	}
}

// A command cannot move a folder that holds a protected path, and put one of its own in its place.
func TestTheFoldersAroundProtectedPathsStay(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state/toolroom/key", "rules/strict/a.cedar", "plain/x"} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("KEY"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := newKitIn(t, base, shell.RuntimeProcess, folder.Options{
		Hidden: []string{filepath.Join(base, "state", "toolroom")}, Fixed: []string{filepath.Join(base, "rules", "strict", "a.cedar")},
	}, nil)
	for _, dir := range []string{"state", "rules", "rules/strict", "state/toolroom"} {
		if got, err := k.run(map[string]any{"command": "mv -T " + dir + " " + dir + ".old"}); err != nil || got.ExitCode == 0 {
			t.Errorf("%s is moved: %+v, %v", dir, got, err)
		}
	}
	if got, err := k.run(map[string]any{"command": "mv -T plain other && echo x > rules/strict/b && mv rules/strict/b state/b && rm -r state/b other"}); err != nil || got.ExitCode != 0 {
		t.Errorf("other folders and files: %+v, %v", got, err)
	}
}

// A command that is late or cancelled ends with all processes that it started.
func TestTheWholeTreeEnds(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		busy := "(while :; do echo x >> alive; sleep 0.05; done) & while :; do sleep 1; done"
		_, err := k.run(map[string]any{"command": "echo begun; " + busy, "timeout": 500})
		if toolroom.CodeOf(err) != toolroom.CodeTimeout || !strings.Contains(fmt.Sprint(toolroom.AsError(err).Details), "begun") {
			t.Errorf("got %v", err)
		}
		k.quiet()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		if out, err := k.exec.Call(ctx, request("shell:exec", "", map[string]any{"command": busy})); err == nil || time.Since(began) > 5*time.Second {
			t.Errorf("got %v after %s", out, time.Since(began))
		}
		k.quiet()
	})
}

// quiet checks that nothing writes to the file alive any more.
func (k *kit) quiet() {
	k.t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(k.dir, "alive"))
		if err != nil {
			k.t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	time.Sleep(300 * time.Millisecond)
	if after := size(); after != before {
		k.t.Errorf("a process still runs: %d bytes became %d", before, after)
	}
}

func TestBackgroundProcesses(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		call := func(tool, who string, args map[string]any) (*source.Output, error) {
			return k.process.Call(t.Context(), request("process:"+tool, who, args))
		}
		out, err := call("start", "a", map[string]any{"command": "for i in 1 2 3; do echo line $i; done; (while :; do echo x >> alive; sleep 0.05; done) & trap '' TERM; while :; do sleep 0.1; done"})
		p, err := decode[shell.Status](t, out, err)
		if err != nil || !p.Running || p.PID == 0 {
			t.Fatalf("%+v, %v", p, err)
		}
		out, err = call("output", "a", map[string]any{"pid": p.PID, "wait": 5000})
		text, err := decode[shell.OutputResult](t, out, err)
		for err == nil && !strings.Contains(text.Output, "line 3") {
			out, err = call("output", "a", map[string]any{"pid": p.PID, "offset": 0, "wait": 100})
			text, err = decode[shell.OutputResult](t, out, err)
		}
		if text.Output != "line 1\nline 2\nline 3\n" {
			t.Errorf("%+v, %v", text, err)
		}
		out, err = call("output", "a", map[string]any{"pid": p.PID, "offset": 7, "limit": 6})
		if text, err := decode[shell.OutputResult](t, out, err); err != nil || text.Output != "line 2" || text.NextOffset != 13 {
			t.Errorf("%+v, %v", text, err)
		}
		for _, tool := range []string{"status", "output", "kill"} {
			if _, err := call(tool, "b", map[string]any{"pid": p.PID}); toolroom.CodeOf(err) != toolroom.CodeNotFound {
				t.Errorf("%s by another identity: %v", tool, err)
			}
			narrow := request("process:"+tool, "a", map[string]any{"pid": p.PID})
			narrow.Identity.Agent = "fast"
			if _, err := k.process.Call(t.Context(), narrow); toolroom.CodeOf(err) != toolroom.CodeNotFound {
				t.Errorf("%s by an agent of the same identity: %v", tool, err)
			}
		}
		narrow := request("process:list", "a", map[string]any{})
		narrow.Identity.Skill = "reader"
		out, err = k.process.Call(t.Context(), narrow)
		if l, err := decode[shell.ListResult](t, out, err); err != nil || len(l.Processes) > 0 {
			t.Errorf("a skill of the same identity sees %+v, %v", l, err)
		}
		for alive := filepath.Join(k.dir, "alive"); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(alive); err == nil {
				break
			}
		}
		out, err = call("kill", "a", map[string]any{"pid": p.PID, "signal": "SIGKILL"})
		if s, err := decode[shell.Status](t, out, err); err != nil || s.Running || s.Signal == "" && *s.ExitCode == 0 {
			t.Errorf("%+v, %v", s, err)
		}
		k.quiet()
		out, err = call("start", "a", map[string]any{"command": "sleep", "args": []string{"60"}})
		p, err = decode[shell.Status](t, out, err)
		if err != nil {
			t.Fatal(err)
		}
		out, err = call("kill", "a", map[string]any{"pid": p.PID})
		for { // it may take a while to end on a loaded machine
			s, err := decode[shell.Status](t, out, err)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Running {
				break
			}
			time.Sleep(20 * time.Millisecond)
			out, err = call("status", "a", map[string]any{"pid": p.PID})
			if err != nil {
				t.Fatal(err)
			}
		}
		out, err = call("list", "a", map[string]any{})
		if l, err := decode[shell.ListResult](t, out, err); err != nil || len(l.Processes) != 2 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

func TestACommandWithAZeroByteIsRefused(t *testing.T) {
	on(t, func(t *testing.T, runtime string) {
		k := newKit(t, runtime, folder.Options{})
		if _, err := k.run(map[string]any{"command": "echo a\x00b"}); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%v", err)
		}
	})
}

func TestHugeOutputIsClipped(t *testing.T) {
	t.Parallel()
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	got, err := k.run(map[string]any{"command": "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last"})
	if err != nil || len(got.Stdout) > 10<<20 || got.Dropped < 40_000_000 || !strings.HasPrefix(got.Stdout, "first\n") || !strings.HasSuffix(got.Stdout, "last\n") {
		t.Errorf("%d bytes, %d dropped, %v", len(got.Stdout), got.Dropped, err)
	}
}

func TestPolicyMayRequireMoreIsolation(t *testing.T) {
	t.Parallel()
	for runtime, isolation := range map[string]string{shell.RuntimeProcess: "vm", shell.RuntimeHost: "process"} {
		k := newKit(t, runtime, folder.Options{})
		r := request("shell:exec", "", map[string]any{"command": "echo x > ran"})
		r.Isolation = isolation
		if _, err := k.exec.Call(t.Context(), r); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
			t.Errorf("%s: %v", runtime, err)
		}
		if _, err := os.Stat(filepath.Join(k.dir, "ran")); err == nil {
			t.Errorf("%s: it ran", runtime)
		}
	}
}

func TestEffectsNameProgramsAndFilesFromTheRightFolder(t *testing.T) {
	t.Parallel()
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	if err := os.Mkdir(filepath.Join(k.dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	effects, _ := k.exec.(source.Predictor).PredictEffects(request("shell:exec", "", map[string]any{"command": "rm x && curl https://example.com", "cwd": "sub"}))
	text := fmt.Sprint(effects)
	for _, want := range []string{filepath.Join(k.dir, "sub", "x"), "rm x", "example.com"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}

func TestProgramsOfThisMachinesPathAreFoundInTheSandbox(t *testing.T) {
	dir := "/usr/local/toolroom-test/bin"
	t.Setenv("PATH", "/nowhere/bin:"+dir+":"+os.Getenv("PATH"))
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	got, err := k.run(map[string]any{"command": "echo $PATH"})
	if err != nil || !strings.HasPrefix(got.Stdout, dir+":") || strings.Contains(got.Stdout, "/nowhere") {
		t.Errorf("%+v, %v", got, err)
	}
}

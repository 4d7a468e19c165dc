//go:build linux

package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

// TestMain runs this binary as the guest, as a program with the driver process, or as a
// program that starts one.
func TestMain(m *testing.M) {
	if code, ok := rogue.Main(os.Args[1:], guest.MainArg); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guest.MainArg, guest.ToolArg:
			os.Exit(guest.Main(os.Args[1:]))
		case escape.Arg:
			os.Exit(escape.Main(os.Args[2:]))
		case "program":
			os.Exit(programMain(os.Args[2]))
		case "parent":
			os.Exit(parentMain(os.Args[2]))
		case "stranger":
			os.Exit(strangerMain(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// programMain serves the driver process, as a program of a build. The setting "panic" makes
// it panic.
func programMain(build string) int {
	err := program.Serve(context.Background(), os.Getenv(program.SocketEnv), os.Stdin, os.Stdout, program.ServeOptions{
		Build: build, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Drivers: map[string]program.NewDriver{"process": func(settings json.RawMessage) (sandbox.Driver, error) {
			var s struct{ Panic, Refuse, Hang string }
			if err := json.Unmarshal(settings, &s); err != nil {
				return nil, err
			}
			if s.Panic != "" {
				go func() { panic(s.Panic) }()
				select {}
			}
			if s.Hang != "" {
				fmt.Fprintln(os.Stderr, "hangs")
				select {}
			}
			if s.Refuse != "" {
				return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s", s.Refuse).WithHint("a hint").WithCLIHint("a command")
			}
			return process.New(os.Args[0], []string{guest.MainArg}), nil
		}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func options(folder string) program.Options {
	self := os.Args[0]
	if abs, err := filepath.Abs(self); err == nil {
		self = abs
	}
	return program.Options{
		Name: "toolroom-runner", Find: func() (string, error) { return self, nil }, Args: []string{"program", "b1"}, Folder: filepath.Join(folder, "run"), Build: "b1",
	}
}

func newProgram(t *testing.T, change func(*program.Options)) *program.Program {
	t.Helper()
	o := options(t.TempDir())
	o.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	if change != nil {
		change(&o)
	}
	p := program.New(o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// testWriter writes the program's log to the test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// driver returns the driver process of a program, if it works here. On CI it must.
func driver(t *testing.T, p *program.Program) sandbox.Driver {
	t.Helper()
	d := p.Driver("process", nil)
	if probe := d.Probe(t.Context()); probe.State != sandbox.Available {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s: %s (%s)", probe.State, probe.Reason, probe.Fix)
		}
		t.Skipf("%s: %s (%s)", probe.State, probe.Reason, probe.Fix)
	}
	return d
}

func spec() sandbox.Spec {
	return sandbox.Spec{Run: "run", Profile: sandbox.Standard, Guest: os.Args[0], Args: []string{guest.MainArg}, BestEffort: true}
}

func suite(d sandbox.Driver) sandboxtest.Options {
	return sandboxtest.Options{
		New: func(*testing.T) sandbox.Driver { return d }, Guest: os.Args[0], GuestArgs: []string{guest.MainArg}, Languages: []string{"python", "shell"},
	}
}

func TestTheSuiteOverTheSocket(t *testing.T) {
	d := driver(t, newProgram(t, nil))
	sandboxtest.Documented(t, "../../../docs/runtimes.md", "process", d.Probe(t.Context()))
	sandboxtest.Run(t, suite(d))
}

func TestNothingGetsOutOverTheSocket(t *testing.T) {
	sandboxtest.Escape(t, suite(driver(t, newProgram(t, nil))), nil)
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	sandboxtest.Rogue(t, suite(driver(t, newProgram(t, nil))))
}

// start starts a sandbox and reads the beginning of its hello.
func start(t *testing.T, d sandbox.Driver) sandbox.Sandbox {
	t.Helper()
	s, err := d.Start(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s.Stream(), make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	return s
}

// children returns the processes whose parent is pid.
func children(pid int) []int {
	var list []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(pid) {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			list = append(list, child)
		}
	}
	return list
}

// runnerOf returns the id of the program that a socket in folder belongs to.
func runnerOf(t *testing.T, parent int) int {
	t.Helper()
	for _, child := range children(parent) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if strings.Contains(string(line), "\x00program\x00") {
			return child
		}
	}
	t.Fatal("there is no program")
	return 0
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	return err != nil || strings.HasPrefix(after, "Z")
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// This test finds the program among the children of this process, so nothing runs beside it.
func TestACrashOfTheProgramIsAClearErrorAndTheNextRunStartsItAgain(t *testing.T) {
	p := newProgram(t, nil)
	d := driver(t, p)
	s := start(t, d)
	pid := runnerOf(t, os.Getpid())
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, s.Stream()); err != nil {
		t.Logf("the stream ended with %v", err)
	}
	_, err := s.Wait(t.Context())
	var known *toolroom.Error
	if !errors.As(err, &known) || known.Code != toolroom.CodeSandboxUnavailable || !known.Retryable || !strings.Contains(known.Message, "toolroom-runner, the program of this sandbox driver, ended unexpectedly (signal: killed)") || known.Hint == "" {
		t.Errorf("the crash is reported as %v", err)
	}
	again := start(t, d)
	if now := runnerOf(t, os.Getpid()); now == pid {
		t.Error("there is no new program")
	}
	if err := again.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAPanicOfTheProgramIsInTheError(t *testing.T) {
	t.Parallel()
	p := newProgram(t, nil)
	bad := p.Driver("process", func(context.Context) (any, error) { return map[string]string{"Panic": "out of cheese"}, nil })
	_, err := bad.Start(t.Context(), spec())
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "panic: out of cheese") {
		t.Errorf("the panic is reported as %v", err)
	}
	if probe := p.Driver("process", nil).Probe(t.Context()); strings.Contains(probe.Reason, "ended unexpectedly") {
		t.Errorf("after the crash the program does not start: %s", probe.Reason)
	}
}

func TestErrorsOfADriverAreUnchanged(t *testing.T) {
	t.Parallel()
	p := newProgram(t, nil)
	refuse := ""
	d := p.Driver("process", func(context.Context) (any, error) { return map[string]string{"Refuse": refuse}, nil })
	if probe := d.Probe(t.Context()); strings.Contains(probe.Reason, "no engine") {
		t.Fatal(probe.Reason)
	}
	refuse = "no engine here" // the changed settings are sent
	_, err := d.Start(t.Context(), spec())
	e := toolroom.AsError(err)
	if e.Message != "no engine here" || e.Hint != "a hint" || e.CLIHint != "a command" || e.Code != toolroom.CodeSandboxUnavailable {
		t.Errorf("the error is %+v", e)
	}
	_, err = p.Driver("none", nil).Start(t.Context(), spec())
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "no such driver") {
		t.Errorf("an unknown driver: %v", err)
	}
	secret := p.Driver("process", func(context.Context) (any, error) { return nil, toolroom.Errorf(toolroom.CodeNotFound, "no secret") })
	if _, err := secret.Start(t.Context(), spec()); err == nil || err.Error() != "no secret" {
		t.Errorf("settings that cannot be made: %v", err)
	}
}

func TestAProgramThatCannotBeUsedIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	shell := func(script string) func(*program.Options) {
		return func(o *program.Options) {
			o.Find = func() (string, error) { return "/bin/sh", nil }
			o.Args = []string{"-c", script}
			o.Hello = time.Second
		}
	}
	for name, tt := range map[string]struct {
		change func(*program.Options)
		want   string
	}{
		"of another build":        {func(o *program.Options) { o.Build = "b2" }, "is of build b1, and this program of build b2"},
		"of another protocol":     {shell(`echo '{"protocol": 7}'; cat`), "version 7 of the protocol"},
		"another kind of program": {shell(`echo usage: none; cat`), `its first line is "usage: none"`},
		"one that ends":           {shell(`echo no such option >&2; exit 3`), "ended unexpectedly (exit status 3): no such option"},
		"one that is silent":      {shell(`exec cat`), "did not say within 1s that it listens"},
		"one that is no program":  {func(o *program.Options) { o.Find = func() (string, error) { return "/etc/passwd", nil } }, "permission denied"},
		"a missing one": {func(o *program.Options) {
			o.Find = func() (string, error) {
				return "", toolroom.Errorf(toolroom.CodeSandboxUnavailable, "it is missing").WithHint("get it")
			}
		}, "it is missing"},
		"a folder of everybody": {func(o *program.Options) { o.Folder = "/etc/passwd/x" }, "folder for the socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t, tt.change)
			d := p.Driver("process", nil)
			probe := d.Probe(t.Context())
			_, err := d.Start(t.Context(), spec())
			_, _, status := p.Status(t.Context())
			if probe.State == sandbox.Available || !strings.Contains(probe.Reason, tt.want) {
				t.Errorf("the probe is %+v", probe)
			}
			if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), tt.want) || status == nil {
				t.Errorf("the error is %v, the status %v", err, status)
			}
		})
	}
}

func TestTheFolderOfTheSocketIsPrivateAndKeepsNoDeadSockets(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "tr") // with a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	folder := filepath.Join(home, "run")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(folder, "1-1.old.sock")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := program.New(func() program.Options { o := options(home); o.Folder = folder; return o }())
	if _, build, err := p.Status(t.Context()); err != nil || build != "b1" {
		t.Fatal(build, err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(dead); err == nil {
		t.Error("the socket of a dead process is still there")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
		t.Errorf("after the end there are %v", left)
	}
	if _, err := p.Driver("process", nil).Start(t.Context(), spec()); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
		t.Errorf("a start after the end: %v", err)
	}
}

func TestALongHomeHasItsSocketElsewhere(t *testing.T) {
	t.Parallel()
	p := newProgram(t, func(o *program.Options) { o.Folder = filepath.Join(t.TempDir(), strings.Repeat("x", 120)) })
	if _, _, err := p.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASocketOfAStrangerIsRefused(t *testing.T) {
	t.Parallel()
	folder := ""
	p := newProgram(t, func(o *program.Options) {
		short, err := os.MkdirTemp("", "tr")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(short) })
		o.Folder, folder = short, short
	})
	if _, _, err := p.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(folder, "*.sock"))
	if len(found) != 1 {
		t.Fatalf("the sockets are %v", found)
	}
	// A process that is not the parent gets no answer.
	out, err := exec.Command(os.Args[0], "stranger", found[0]).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "closed" {
		t.Errorf("a stranger got %q, %v", out, err)
	}
	// A process that takes the path gets no request.
	if err := os.Remove(found[0]); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		n, _ := c.Read(make([]byte, 100))
		got <- n
	}()
	_, err = p.Driver("process", nil).Start(t.Context(), spec())
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "has been taken over") {
		t.Errorf("the error is %v", err)
	}
	if n := <-got; n > 0 {
		t.Errorf("the stranger read %d bytes", n)
	}
}

// strangerMain sends a request to a socket and says what it got.
func strangerMain(socket string) int {
	c, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = io.WriteString(c, "GET /process/v1/probe HTTP/1.1\r\nHost: x\r\n\r\n")
	text, _ := io.ReadAll(c)
	if len(text) == 0 {
		fmt.Println("closed")
		return 0
	}
	fmt.Printf("%s\n", text)
	return 1
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	p := newProgram(t, nil)
	d := driver(t, p)
	pid := runnerOf(t, os.Getpid())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Start(ctx, spec()); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
		t.Errorf("the start ended with %v", err)
	}
	short, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	if s, err := d.Start(short, spec()); err == nil {
		_ = s.Kill(t.Context())
	}
	eventually(t, "the program still has processes", func() bool { return len(children(pid)) == 0 })
}

// parentMain starts a sandbox of a program and waits to be killed.
func parentMain(folder string) int {
	p := program.New(options(folder))
	s, err := p.Driver("process", nil).Start(context.Background(), spec())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := io.ReadFull(s.Stream(), make([]byte, 4)); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	select {}
}

func TestTheProgramAndItsSandboxesEndWithAKilledParent(t *testing.T) {
	driver(t, newProgram(t, nil)) // skips where it does not work
	parent := exec.Command(os.Args[0], "parent", t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, _ := out.Read(line)
	if string(line[:n]) != "ready\n" {
		t.Fatalf("the parent said %q", line[:n])
	}
	pid := runnerOf(t, parent.Process.Pid)
	sandboxes := children(pid)
	if len(sandboxes) == 0 {
		t.Fatal("there is no sandbox")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the program outlives its parent", func() bool { return !alive(pid) })
	for _, child := range sandboxes {
		eventually(t, "a sandbox outlives its program", func() bool { return !alive(child) })
	}
}

func TestAFailedStartLeavesNoFolder(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p := newProgram(t, func(o *program.Options) {
		o.Folder = filepath.Join(t.TempDir(), strings.Repeat("x", 120)) // the socket is in a folder of its own
		o.Find = func() (string, error) { return temp, nil }            // a folder cannot be started
	})
	if _, _, err := p.Status(t.Context()); toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
		t.Errorf("the start: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestARequestWaitsForSettingsNoLongerThanItsCaller(t *testing.T) {
	t.Parallel()
	said := make(chan string, 100)
	p := newProgram(t, func(o *program.Options) { o.Log = slog.New(slog.NewTextHandler(lines(said), nil)) })
	hung := p.Driver("process", func(context.Context) (any, error) { return map[string]string{"hang": "yes"}, nil })
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan sandbox.Probe, 1)
	go func() { first <- hung.Probe(ctx) }()
	for !strings.Contains(<-said, "hangs") {
	}
	short, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer done()
	if got := hung.Probe(short); got.State == sandbox.Available {
		t.Errorf("the second request: %+v", got)
	}
	cancel()
	if got := <-first; got.State == sandbox.Available {
		t.Errorf("the first request: %+v", got)
	}
}

// lines sends what is written to it to a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestARequestWaitsForAStartNoLongerThanItsCaller(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	p := newProgram(t, func(o *program.Options) {
		o.Find = func() (string, error) { close(started); return "/bin/sleep", nil } // says no hello
		o.Args, o.Hello = []string{"600"}, time.Hour
	})
	first := make(chan error, 1)
	go func() { _, _, err := p.Status(t.Context()); first <- err }()
	<-started
	short, done := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer done()
	second := make(chan error, 1)
	go func() { _, _, err := p.Status(short); second <- err }()
	select {
	case err := <-second:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second request: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a request waits for the start although its caller has gone")
	}
	// Closing ends the start.
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-first; toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
		t.Errorf("the first request: %v", err)
	}
}

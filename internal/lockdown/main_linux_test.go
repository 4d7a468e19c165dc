//go:build amd64 || arm64

package lockdown

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
)

// The test binary plays all parts: the server that starts sandboxes, as root or as
// nobody; init; and the guest inside, which tries to get out.
const (
	serverRole = "__server"
	forbidRole = "__forbid" // a server that may not make user namespaces
	maskRole   = "__mask"   // a server whose /proc is partly hidden, as in a container
	guestRole  = "__guest"
	suidRole   = escape.SetUIDArg
)

// exe is a copy of the test binary that every user can execute; suid is another
// that belongs to root and has the set-user-ID bit.
var exe, suid string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case InitArg:
			os.Exit(Main())
		case serverRole:
			os.Exit(serve())
		case forbidRole:
			os.Exit(forbid())
		case maskRole:
			os.Exit(mask())
		case guestRole:
			os.Exit(guest(os.Args[2:]))
		case suidRole:
			fmt.Print(os.Geteuid())
			os.Exit(0)
		}
	}
	folder, err := os.MkdirTemp("", "lockdown-test-")
	if err == nil {
		err = prepare(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

func prepare(folder string) error {
	if err := os.Chmod(folder, 0o755); err != nil {
		return err
	}
	binary, err := os.ReadFile(self())
	if err != nil {
		return err
	}
	exe, suid = filepath.Join(folder, "guest"), filepath.Join(folder, "suid")
	if err := errors.Join(os.WriteFile(exe, binary, 0o755), os.WriteFile(suid, binary, 0o755)); err != nil {
		return err
	}
	return errors.Join(os.Chmod(exe, 0o755), os.Chmod(suid, 0o755|os.ModeSetuid))
}

// setup is a configuration in which the tests run.
type setup struct {
	name   string
	nobody bool // the server is not root
	forbid bool // and may not make user namespaces
	mask   bool // and sees only a part of /proc
	filter Filter
}

var setups = []setup{
	{name: "root, standard", filter: Standard},
	{name: "root, hardened", filter: Hardened},
	{name: "nobody, standard", nobody: true, filter: Standard},
	{name: "nobody, hardened", nobody: true, filter: Hardened},
	{name: "hidden proc, hardened", nobody: true, mask: true, filter: Hardened},
	{name: "no namespaces, standard", nobody: true, forbid: true, filter: Standard},
	{name: "no namespaces, hardened", nobody: true, forbid: true, filter: Hardened},
}

// namespaced returns the setups whose sandboxes have namespaces.
func namespaced() []setup { return setups[:5] }

var rootServer, nobodyServer, flatServer = setups[0], setups[2], setups[5]

// task is what a server runs.
type task struct {
	Guest      []string
	Program    []string // instead of the guest
	Filter     Filter
	Limits     Limits
	Binds      []Bind
	Minimum    []Layer
	BestEffort bool
	Direct     bool
	Network    bool
}

// outcome is a server's report.
type outcome struct {
	Error  string
	Limit  bool // the error is a LimitError
	Layers string
	Held   []Held
	Exit   Exit
	Usage  Usage
	Stdout string
}

// server is a running server process.
type server struct {
	cmd    *exec.Cmd
	Stdout io.Reader // the guest's output
	result io.Reader
}

const secret = "LOCKDOWN_SECRET=swordfish"

// missing skips a test because this machine lacks something. On CI, where
// everything must be present, it fails the test instead.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// startServer starts a server that runs job.
func startServer(t *testing.T, s setup, job task) *server {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "this test needs root, to run as more than one user")
	}
	if job.Filter == "" {
		job.Filter = s.filter
	}
	if s.forbid && job.Minimum == nil {
		job.Minimum, job.BestEffort = []Layer{Seccomp, Landlock}, true
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	role := serverRole
	if s.forbid {
		role = forbidRole
	}
	if s.mask {
		role = maskRole
	}
	cmd := exec.Command(exe, role, string(text))
	cmd.Env = append(os.Environ(), secret, "TMPDIR=/tmp")
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	switch {
	case s.mask:
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNS
	case s.nobody:
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: Nobody, Gid: Nobody}
	}
	if s.forbid {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: Nobody, HostID: Nobody, Size: 1}}
		cmd.SysProcAttr.GidMappings = cmd.SysProcAttr.UidMappings
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_RESOURCE}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	result, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		result.Close()
	})
	return &server{cmd: cmd, Stdout: stdout, result: result}
}

// do starts a server that runs job and waits for the outcome.
func do(t *testing.T, s setup, job task) outcome {
	t.Helper()
	server := startServer(t, s, job)
	stdout, err := io.ReadAll(server.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.NewDecoder(server.result).Decode(&o); err != nil {
		t.Fatalf("no outcome: %v\n%s", err, stdout)
	}
	o.Stdout = string(stdout)
	return o
}

// forbid forbids user namespaces below this one, drops the right to allow them
// again, and becomes a server.
func forbid() int {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return becomeServer()
}

// mask hides a part of /proc as a container engine does, changes the user to
// nobody, and becomes a server.
func mask() int {
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", "/proc/sys", "tmpfs", unix.MS_RDONLY, ""),
		syscall.Setgroups(nil), syscall.Setgid(Nobody), syscall.Setuid(Nobody),
	} {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return becomeServer()
}

func becomeServer() int {
	err := syscall.Exec(self(), []string{self(), serverRole, os.Args[2]}, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// self returns the path of this process's binary.
func self() string {
	path, _ := os.Executable()
	return path
}

// serve runs a task and reports the outcome.
func serve() int {
	unix.CloseOnExec(3)
	var o outcome
	if err := runTask(&o); err != nil {
		o.Error = err.Error()
		var limit *LimitError
		o.Limit = errors.As(err, &limit)
	}
	if err := json.NewEncoder(os.NewFile(3, "result")).Encode(o); err != nil {
		return 1
	}
	return 0
}

func runTask(o *outcome) error {
	var job task
	if err := json.Unmarshal([]byte(os.Args[2]), &job); err != nil {
		return err
	}
	// Open a file without close-on-exec, as a faulty library might do.
	if _, err := syscall.Open("/proc/self/environ", syscall.O_RDONLY, 0); err != nil {
		return err
	}
	spec := Spec{
		Path: self(), Env: []string{"PATH=/usr/bin:/bin", "SERVER=" + strconv.Itoa(os.Getpid()), "SELF=" + self()},
		Args: append([]string{"guest", guestRole}, job.Guest...),
		Root: System(), Binds: append(job.Binds, Bind{Source: self()}),
		Stdout: os.Stdout, Stderr: os.Stderr,
		Limits: job.Limits, Seccomp: job.Filter, Minimum: job.Minimum, BestEffort: job.BestEffort, Direct: job.Direct, Network: job.Network,
	}
	if len(job.Program) > 0 {
		spec.Path, spec.Args = job.Program[0], job.Program
	}
	var h HostMachine
	p, err := h.Start(context.Background(), spec)
	if err != nil {
		return err
	}
	o.Layers, o.Held = p.Layers().String(), p.Held()
	o.Exit, err = p.Wait()
	o.Usage = p.Usage()
	return err
}

// having lists the processes whose command line contains token.
func having(token string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), token) {
			found = append(found, filepath.Dir(path)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// waitGone waits until no process has token on its command line.
func waitGone(t *testing.T, token string) {
	t.Helper()
	waitFor(t, "processes are left", func() bool { return len(having(token)) == 0 })
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal(what)
		}
	}
}

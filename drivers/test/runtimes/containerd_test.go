//go:build integration

package runtimes

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// containerdEngine starts a containerd of its own and returns its socket.
func containerdEngine(t testing.TB) string { return containerdEngineIn(t, folder(t)) }

func containerdEngineIn(t testing.TB, dir string) string {
	t.Helper()
	binary := program(t, "containerd", "containerd")
	program(t, "runc", "runc")
	socket := filepath.Join(dir, "containerd.sock")
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon(t, socket, binary, "--config", config)
	return socket
}

func containerdDriver(t testing.TB, o containerd.Options) *containerd.Driver {
	t.Helper()
	d := containerd.New(o)
	archive, err := os.Open(made.archive)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := d.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	return d
}

// ctr lists the names of a daemon's objects in our namespace.
func ctr(t testing.TB, socket string, args ...string) []string {
	t.Helper()
	out, err := exec.Command("ctr", append([]string{"--address", socket, "--namespace", "toolroom"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.Fields(string(out))
}

// containerdLeftovers returns the containers, tasks, leases, and snapshots except the
// committed one of the image.
func containerdLeftovers(t testing.TB, socket string) []string {
	t.Helper()
	left := ctr(t, socket, "containers", "list", "--quiet")
	left = append(left, ctr(t, socket, "tasks", "list", "--quiet")...)
	left = append(left, ctr(t, socket, "leases", "list", "--quiet")...)
	for _, word := range ctr(t, socket, "snapshots", "list") {
		if strings.HasPrefix(word, "toolroom-") {
			left = append(left, "snapshot "+word)
		}
	}
	return left
}

func TestContainerdPassesTheSuite(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"runc", "runsc"} {
		t.Run(runtime, func(t *testing.T) {
			program(t, runtime, runtime)
			t.Parallel()
			socket := containerdEngine(t)
			d := containerdDriver(t, containerd.Options{Address: socket, Runtime: runtime})
			var lacks []sandbox.Limit
			if runtime == "runsc" {
				lacks = []sandbox.Limit{sandbox.LimitPIDs, sandbox.LimitEgress} // its loopback interface is down
			}
			passes(t, "containerd/"+runtime, sandboxtest.Options{
				New:       func(*testing.T) sandbox.Driver { return d },
				Guest:     made.guest,
				Lacks:     lacks,
				Languages: []string{"python", "javascript", "shell"},
				Leftovers: func(t *testing.T) []string { return containerdLeftovers(t, socket) },
			}, possible(inAnImage, below(runtime)))
		})
	}
}

func TestRemainsOfADeadProcessInContainerdAreRemoved(t *testing.T) {
	t.Parallel()
	socket := containerdEngine(t)
	containerdDriver(t, containerd.Options{Address: socket})
	own := proc.Labels("run")
	// runc identifies containers by name, across daemons.
	alive, dead := "toolroom-"+rand.Text(), "toolroom-"+rand.Text()
	for name, owner := range map[string]string{dead: deadOwner(t), alive: own[proc.LabelOwner]} {
		ctr(t, socket, "run", "--detach", "--label", proc.LabelOwner+"="+owner, "--label", proc.LabelMachine+"="+own[proc.LabelMachine], image.Name, name, "sleep", "300")
	}
	t.Cleanup(func() { ctr(t, socket, "tasks", "delete", "--force", alive) })
	if p := containerd.New(containerd.Options{Address: socket}).Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%+v", p)
	}
	if left := ctr(t, socket, "containers", "list", "--quiet"); len(left) != 1 || left[0] != alive {
		t.Errorf("there are the containers %v", left)
	}
}

func TestContainerdSaysWhyItCannotBeUsed(t *testing.T) {
	t.Parallel()
	socket := containerdEngine(t)
	for _, tt := range []struct {
		name   string
		driver *containerd.Driver
		reason string
	}{
		{"no socket", containerd.New(containerd.Options{Address: filepath.Join(folder(t), "none.sock")}), "there is no socket"},
		{"no image", containerd.New(containerd.Options{Address: socket}), "no image"},
		{"no runtime", containerd.New(containerd.Options{Address: socket, Runtime: "nothing"}), "not in the PATH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.driver.Probe(t.Context())
			if p.State != sandbox.Unsupported || !strings.Contains(p.Reason, tt.reason) || p.Fix == "" {
				t.Errorf("the probe said %+v", p)
			}
			_, err := tt.driver.Start(t.Context(), sandbox.Spec{Guest: made.guest})
			refused(t, err, "", "")
		})
	}
}

func TestARunCannotMakeContainerdStartAnyProgram(t *testing.T) {
	t.Parallel()
	socket := containerdEngine(t)
	d := containerdDriver(t, containerd.Options{Address: socket})
	kata := containerd.NewKata(containerd.Options{Address: socket})
	for _, tt := range []struct {
		driver  *containerd.Driver
		runtime string
	}{{d, "sh"}, {d, "../bin/sh"}, {d, "/bin/sh"}, {d, "io.containerd.any.v1"}, {kata, "runc"}} {
		if _, err := tt.driver.Start(t.Context(), sandbox.Spec{Guest: made.guest, Runtime: tt.runtime}); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s/%s: %v", tt.driver.Name(), tt.runtime, err)
		}
	}
}

// Kata cannot run here, so its driver is tested up to the call of its shim.
func TestKataStartsItsShim(t *testing.T) {
	shims := folder(t)
	called := filepath.Join(shims, "called")
	shim := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\necho 'no virtual machines here' >&2\nexit 1\n", called)
	if err := os.WriteFile(filepath.Join(shims, "containerd-shim-kata-v2"), []byte(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", shims+":"+os.Getenv("PATH"))
	socket := containerdEngine(t)
	containerdDriver(t, containerd.Options{Address: socket})
	d := containerd.NewKata(containerd.Options{Address: socket})
	_, err := d.Start(t.Context(), sandbox.Spec{Run: "run", Guest: made.guest})
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "no virtual machines here") {
		t.Errorf("the start said %v", err)
	}
	if args, err := os.ReadFile(called); err != nil || !strings.Contains(string(args), "-namespace toolroom") {
		t.Errorf("the shim was called with %q, %v", args, err)
	}
	if left := containerdLeftovers(t, socket); len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}

// TestAContainerdGuestEndsWithItsToolroom: the shim keeps the guest's stream open, so the
// guest must notice by itself. Nobody cleans here.
func TestAContainerdGuestEndsWithItsToolroom(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"runc", "runsc"} {
		t.Run(runtime, func(t *testing.T) {
			program(t, runtime, runtime)
			t.Parallel()
			v := victim{Driver: "containerd", Runtime: runtime, Address: containerdEngine(t), Folder: folder(t), Guest: made.guest}
			containerdDriver(t, containerd.Options{Address: v.Address})
			v.kill(t)
			running := func() bool {
				out, err := exec.Command("ctr", "--address", v.Address, "--namespace", "toolroom", "tasks", "list").CombinedOutput()
				return err != nil || strings.Contains(string(out), "RUNNING")
			}
			if !running() {
				t.Fatal("nothing runs after the kill: the test tries nothing")
			}
			for end := time.Now().Add(2 * guest.AliveTimeout); running(); time.Sleep(time.Second) {
				if time.Now().After(end) {
					t.Fatal("the guest has outlived its Toolroom")
				}
			}
			if _, err := v.driver().(sandbox.Cleaner).Clean(t.Context(), false); err != nil { // what is not running
				t.Error(err)
			}
		})
	}
}

// TestDevInContainerdReachesNoAbstractSocketOfTheMachine: it has the machine's network.
func TestDevInContainerdReachesNoAbstractSocketOfTheMachine(t *testing.T) {
	t.Parallel()
	name := "toolroom-test-" + rand.Text()
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("canary"))
			_ = c.Close()
		}
	}()
	d := containerdDriver(t, containerd.Options{Address: containerdEngine(t)})
	h := &listener{}
	result, err := hosted.New(d).Run(t.Context(), engine.Job{
		Run: "dev", Owner: "tester", Sandbox: sandbox.Spec{Profile: sandbox.Dev, Guest: made.guest},
		Program: bridge.Program{Language: "python", Limits: bridge.Limits{Wall: 60_000}, Source: `
import socket, os, ctypes
got = []
def attempt(what, f):
    try:
        f(); got.append(what)
    except Exception as e:
        pass
def abstract():
    s = socket.socket(socket.AF_UNIX); s.connect("\0` + name + `")
attempt("abstract", abstract)
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
libc = ctypes.CDLL(None, use_errno=True)
def syscall(*a):
    if libc.syscall(*a) < 0: raise OSError(ctypes.get_errno())
attempt("user namespace", lambda: syscall(272, 0x10000000))
attempt("io_uring", lambda: syscall(425, 1, ctypes.create_string_buffer(120)))
attempt("add_key", lambda: syscall(248, b"user", b"x", b"y", 1, -1))
attempt("TCP", lambda: socket.socket(socket.AF_INET))
attempt("pair", lambda: socket.socketpair())
return ",".join(got)
`},
	}, h)
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if got := fmt.Sprint(result.Outcome.Value); got != "TCP,pair" {
		t.Errorf("what worked: %s", got)
	}
}

func TestDevHoldsNoLimitOfDisk(t *testing.T) {
	t.Parallel()
	d := containerdDriver(t, containerd.Options{Address: containerdEngine(t)})
	s := sandbox.Spec{Profile: sandbox.Dev, Guest: made.guest, Limits: sandbox.Limits{Disk: 16 << 20}}
	if err := sandbox.Check("containerd", d.Probe(t.Context()), s); toolroom.CodeOf(err) != toolroom.CodeLimitNotEnforceable {
		t.Errorf("asked for: %v", err)
	}
	s.Defaulted = []sandbox.Limit{sandbox.LimitDisk}
	if err := sandbox.Check("containerd", d.Probe(t.Context()), s); err != nil {
		t.Errorf("a default: %v", err)
	}
}

//go:build integration

package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// quiet is a call handler without tools.
type quiet struct{ bridge.Handler }

func (quiet) Print(string, string) {}

// python runs a program and returns its value.
func python(t *testing.T, o kubernetes.Options, p sandbox.Profile, source string) bridge.Value {
	t.Helper()
	result, err := hosted.New(kubernetes.New(o)).Run(t.Context(), engine.Job{
		Run: "run-attack", Owner: "tester", Sandbox: sandbox.Spec{Profile: p, Guest: node.guest},
		Program: bridge.Program{Language: "python", Name: "main.py", Source: source, Limits: bridge.Limits{Wall: time.Minute.Milliseconds()}},
	}, quiet{})
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	return result.Outcome.Value
}

func TestNothingInAPodOpensAWayOut(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	const source = `
import ctypes, os, socket, stat
found = []
def attempt(name, f):
    try:
        f()
        found.append(name)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno())
def poke():
    with open("/proc/1/mem", "r+b") as memory:
        memory.seek(0x400000)
        memory.write(b"x")
for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
    attempt(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_STREAM))
attempt("io_uring", lambda: call(425, 8, ctypes.create_string_buffer(120)))
attempt("a user namespace", lambda: call(272, 0x10000000))
attempt("a mount", lambda: call(165, b"none", b"/work", b"tmpfs", 0, None))
attempt("ptrace of the first process", lambda: call(101, 16, 1, 0, 0))
attempt("root", lambda: os.setuid(0))
attempt("a host's disk", lambda: os.mknod("/work/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0)))
attempt("the service account", lambda: os.listdir("/var/run/secrets/kubernetes.io"))
attempt("the kubelet's file", lambda: open("/root/.termination", "w"))
# The names of the kernel's symbols are no secret, their addresses are.
if any(line.split()[0].strip("0") for line in open("/proc/kallsyms")):
    found.append("addresses of the kernel")
if os.path.exists("/dev/ptmx") or os.listdir("/sys/fs/cgroup") or os.listdir("/dev/pts"):
    found.append("terminals or cgroups")
for name in ("kubernetes", "kubernetes.default.svc", "example.com"):
    attempt("DNS " + name, lambda: socket.getaddrinfo(name, 443))
# Message queues are the Pod's own, and an rlimit bounds them.
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/work", "/dev/shm", "/dev/pts", "/dev/mqueue")]
    for path in [os.path.join(folder, f) for f in files] + [folder]:
        if os.access(path, os.W_OK) and not stat.S_ISCHR(os.stat(path).st_mode) and not os.path.islink(path):
            found.append("writes to " + path)
found
`
	for _, p := range []sandbox.Profile{sandbox.Standard, sandbox.Hardened} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]bridge.Value{}, python(t, o, p, source)); diff != "" {
				t.Errorf("the program could (-want +got):\n%s", diff)
			}
		})
	}
}

// The node writes the output of a Pod's first process to files, and log collectors read them.
func TestTheLogsOfTheNodeHaveNoMessagesOfAProgram(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	_, conn := begin(t, kubernetes.New(o), sandbox.Spec{}) // which is removed, with its logs, after the test
	out, err := conn.Run(t.Context(), bridge.Program{Language: "python", Source: `"a secret " + "of the tools"`, Limits: bridge.Limits{Wall: 30_000}}, quiet{})
	if err != nil || out.Value != "a secret of the tools" {
		t.Fatalf("the program gave %+v, %v", out, err)
	}
	logs, err := filepath.Glob(filepath.Join(node.folder, "pod-logs", o.Namespace+"_*", "*", "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("the node has no logs of the Pod: %v", err)
	}
	for _, log := range logs {
		if text, err := os.ReadFile(log); err == nil && strings.Contains(string(text), "of the tools") {
			t.Errorf("%s has %q", log, text)
		}
	}
}

func TestAGuestThatIsNotInTheImageIsPutIntoThePod(t *testing.T) {
	t.Parallel()
	o := namespace(t)
	o.Image, o.GuestImage = "localhost/pause:test", "localhost/toolroom:latest"
	_, conn := begin(t, kubernetes.New(o), sandbox.Spec{})
	out, err := conn.Run(t.Context(), bridge.Program{Language: "command", Command: []string{"/busybox", "false"}, Limits: bridge.Limits{Wall: 10_000}}, quiet{})
	if err != nil || out.Failure != nil || out.Exit != 1 {
		t.Errorf("it ended with %+v, %v", out, err)
	}
}

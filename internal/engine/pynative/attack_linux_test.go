package pynative_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/pynative"
)

// host answers echo:value, and keeps what it hears.
type host struct {
	bridge.Host
	calls []string
}

func (h *host) Call(_ context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	h.calls = append(h.calls, tool)
	if tool != "echo:value" {
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "there is no tool %s", tool)
	}
	return arguments.Get("value"), nil
}

func (h *host) Print(string, string) {}

func open(t testing.TB, o pynative.Options) *pynative.Engine {
	t.Helper()
	e := pynative.New(o)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func job(owner, source string) engine.Job {
	return engine.Job{Run: "run-test", Owner: owner, Program: bridge.Program{
		Language: "python", Name: "main.py", Source: source, Limits: bridge.Limits{Wall: 20_000},
	}}
}

// value runs a program that must give a value back.
func value(t *testing.T, e *pynative.Engine, owner, source string) bridge.Value {
	t.Helper()
	result, err := e.Run(t.Context(), job(owner, source), &host{})
	if err != nil {
		t.Fatal(err)
	}
	if f := result.Outcome.Failure; f != nil {
		t.Fatalf("%v\n%s", f, f.Trace)
	}
	return result.Outcome.Value
}

// tried wraps statements so that the program's value is what became of them.
func tried(body string) string {
	lines := "    " + strings.ReplaceAll(body, "\n", "\n    ")
	return "import os, sys, socket, signal, ctypes, mmap, threading\nlibc = ctypes.CDLL(None, use_errno=True)\n" +
		"def attack():\n" + lines + "\ntry:\n    got = attack()\nexcept OSError as e:\n    got = 'refused'\ngot"
}

func TestAttacksFromInsideFail(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	for _, c := range []struct{ name, body string }{
		{"files of the host are not there", "return open('/root/.bashrc').read()"},
		{"users of the host are not there", "return [l for l in open('/etc/passwd') if 'root' in l] or open('/etc/shadow').read()"},
		{"system files are read-only", "open('/usr/lib/x', 'w')"},
		{"the root is read-only", "os.mkdir('/x')"},
		{"the folder of other runs cannot be listed", "return os.listdir('/work')"},
		{"nothing is left in /tmp", "open('/tmp/x', 'w')"},
		{"nothing is left in /dev/shm", "open('/dev/shm/x', 'w')"},
		{"links do not lead out", "os.symlink('/work', 'out')\nreturn os.listdir('out')"},
		{"the folder of the Python files is closed", "return os.listdir('/run/toolroom')"},
		{"TCP", "socket.create_connection(('1.1.1.1', 80), 1)"},
		{"UDP", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53))"},
		{"Unix sockets", "socket.socket(socket.AF_UNIX).connect('\\0x')"},
		{"raw sockets", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"},
		{"netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"},
		{"exec", "os.execv('/bin/true', ['true'])"},
		{"a subprocess", "import subprocess\nreturn subprocess.run(['id'], capture_output=True).stdout"},
		{"fork", "return os.fork()"},
		{"ptrace of the zygote", "if libc.ptrace(16, 1, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'ptrace')"},
		{"reading the zygote's memory", "class V(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('n', ctypes.c_size_t)]\nb = ctypes.create_string_buffer(8)\nv = V(ctypes.addressof(b), 8)\nif libc.process_vm_readv(1, ctypes.byref(v), 1, ctypes.byref(v), 1, 0) < 0: raise OSError(ctypes.get_errno(), 'x')"},
		{"a signal to the zygote", "os.kill(1, signal.SIGKILL)"},
		{"a signal to all", "os.kill(-1, signal.SIGKILL)"},
		{"a pidfd of the zygote", "os.pidfd_open(1)"},
		{"the zygote's memory in /proc", "return open('/proc/1/mem', 'rb').read(1)"},
		{"the zygote's environment in /proc", "return open('/proc/1/environ').read()"},
		{"the list of processes", "return os.listdir('/proc')"},
		{"one's own memory map in /proc", "return open('/proc/self/maps').read()"},
		{"the kernel's settings", "return open('/proc/sys/kernel/hostname').read()"},
		{"sysfs", "return os.listdir('/sys')"},
		{"namespaces", "if libc.unshare(0x10000000) < 0: raise OSError(ctypes.get_errno(), 'unshare')"},
		{"mounts", "if libc.mount(b'x', b'/work', b'tmpfs', 0, 0) < 0: raise OSError(ctypes.get_errno(), 'mount')"},
		{"memory that outlives the run", "if libc.shmget(42, 4096, 0o1600) < 0: raise OSError(ctypes.get_errno(), 'shmget')"},
		{"memory that no limit counts", "os.memfd_create('x')"},
		{"becoming another user", "os.setuid(0)"},
		{"raising a limit", "import resource\nresource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)\n"},
		{"descriptors of the zygote", "for fd in range(4, 1024):\n    try: os.fstat(fd)\n    except OSError: continue\n    return fd\nraise OSError(9, 'none')"},
		{"a filter cannot be taken back", "if libc.prctl(22, 0, 0, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'seccomp')"},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := e.Run(t.Context(), job("attacker", tried(c.body)), &host{})
			if err != nil {
				t.Fatal(err)
			}
			f := result.Outcome.Failure
			refused := f == nil && result.Outcome.Value == bridge.Value("refused") || f != nil && f.Type == "ValueError" && strings.Contains(f.Message, "limit")
			if !refused {
				t.Errorf("it was not refused: value %v, failure %v", result.Outcome.Value, f)
			}
		})
	}
}

func TestTheEnvironmentHoldsNothingOfTheServers(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SERVER", "x")
	e := open(t, pynative.Options{})
	got := value(t, e, "a", "import os\nsorted(os.environ)")
	want := []bridge.Value{"HOME", "LANG", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "TMPDIR"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the environment differs (-want +got):\n%s", diff)
	}
}

func TestARunLeavesNoFilesHoweverItNamesThem(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{Ahead: 1})
	value(t, e, "a", `
import os
for i in range(2000):
    os.mkdir("d"); os.chdir("d")
    open("f", "w").write("x")
    if i % 100 == 0: os.chmod("f", 0)
os.chmod(".", 0)
None`)
	// All inodes of the owner's folder can be had again.
	for range 3 {
		got := value(t, e, "a", "import os\nn = 0\ntry:\n    while n < 14000:\n        open(str(n), 'w').close(); n += 1\nexcept OSError: pass\n[n, len(os.listdir('.'))]")
		if diff := cmp.Diff([]bridge.Value{int64(14000), int64(14000)}, got); diff != "" {
			t.Errorf("an earlier run's files are in the way (-want +got):\n%s", diff)
		}
	}
}

func TestOwnersHaveProcessesOfTheirOwn(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	source := "import ctypes\nid(ctypes), hash('seed')\n[id(ctypes), hash('seed')]"
	if diff := cmp.Diff(value(t, e, "a", source), value(t, e, "b", source)); diff == "" {
		t.Error("two owners have the same addresses and hash seed: they share a zygote")
	}
	if s := e.Stats(); s.Zygotes != 2 {
		t.Errorf("there are %d zygotes, want one for each owner: %+v", s.Zygotes, s)
	}
}

func TestRunsHaveRandomNumbersOfTheirOwn(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	seen := map[string]bool{}
	const runs = 20
	for range runs {
		seen[fmt.Sprint(value(t, e, "a", "import random, uuid, secrets, tempfile\n[random.random(), str(uuid.uuid4()), secrets.token_hex(), next(tempfile._get_candidate_names())]"))] = true
	}
	if len(seen) != runs {
		t.Errorf("%d runs drew %d sets of random numbers", runs, len(seen))
	}
}

func TestAToolOutsideThePolicyIsRefusedByTheHost(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	h := &host{}
	result, err := e.Run(t.Context(), job("a", "try:\n    call_tool('admin:delete', {})\nexcept ToolError as e:\n    got = e.code\ngot"), h)
	if err != nil || result.Outcome.Value != bridge.Value("tool_not_found") {
		t.Errorf("got %+v, %v", result, err)
	}
	if diff := cmp.Diff([]string{"admin:delete"}, h.calls); diff != "" {
		t.Errorf("the host was asked differently (-want +got):\n%s", diff)
	}
}

// A program has the stream itself, as file 3, and may write to it what it
// wants: only its own run suffers.
func TestAProgramThatBreaksTheProtocolEndsItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	forged := "import sys, gc\nb = next(o for o in gc.get_objects() if type(o).__name__ == 'Bridge')\n"
	for name, source := range map[string]string{
		"garbage":                "import os\nos.write(3, b'\\xff' * 64)\nwhile True: pass",
		"a closed stream":        "import os\nos.close(3)\nwhile True: pass",
		"a made-up token":        "import os, gc, sys\nos.write(3, bytes([0, 0, 0, 9, 0x84, 0x18, 30, 0, 0x43, 1, 2, 3, 0xa0]))\nwhile True: pass",
		"a frame of the host's":  forged + "b.send(33, {})\nwhile True: pass",
		"an endless announced":   "import os\nos.write(3, b'\\x00\\xff\\xff\\xff')\nos.close(3)\nwhile True: pass",
		"calls without an end":   forged + "while True: b._ask(10, {'tool': 'echo:value', 'arguments': {}})",
		"a second end of a run":  forged + "for _ in range(3): b.send(30, {'value': 1})\nwhile True: pass",
		"a fatal signal":         "import ctypes\nctypes.string_at(0)",
		"an exit without a word": "import os\nos._exit(3)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			result, err := e.Run(ctx, job("a", source), &host{})
			if name == "a second end of a run" {
				if err != nil || result.Outcome.Value != bridge.Value(int64(1)) {
					t.Errorf("got %+v, %v, want the first value", result, err)
				}
			} else if err == nil && result.Outcome.Failure == nil || ctx.Err() != nil {
				t.Errorf("the run ended with %+v, %v", result, err)
			}
			if got := value(t, e, "a", "1 + 1"); got != bridge.Value(int64(2)) {
				t.Errorf("the next run gave %v", got)
			}
		})
	}
}

// Ten thousand runs, each of which leaves something and looks for what others
// have left.
func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	runs := 10_000
	if testing.Short() {
		runs = 300
	}
	e := open(t, pynative.Options{Ahead: 8})
	source := `
import builtins, os, sys, json
seen = [hasattr(builtins, "leak"), hasattr(json, "leak"), hasattr(sys, "leak"), "LEAK" in os.environ, os.path.exists("leak"), os.listdir("."), "leak" in globals()]
builtins.leak = json.leak = sys.leak = leak = 1
os.environ["LEAK"] = "1"
open("leak", "w").write("1")
sys.modules["math"] = None
json.dumps = None
seen`
	want := []bridge.Value{false, false, false, false, false, []bridge.Value{}, false}
	for i := range runs {
		if diff := cmp.Diff(want, value(t, e, "a", source)); diff != "" {
			t.Fatalf("run %d sees an earlier one (-want +got):\n%s", i, diff)
		}
	}
	if s := e.Stats(); s.Hits+s.Misses != runs || s.Zygotes != 1 || s.Failed != 0 {
		t.Errorf("%d runs are counted as %+v", runs, s)
	}
}

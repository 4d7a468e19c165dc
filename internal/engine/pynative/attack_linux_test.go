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
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/pynative"
)

// host answers echo:value, and keeps what it hears.
type host struct {
	bridge.Handler
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
	return "import os, socket, signal\ndef attack():\n" + lines + "\ntry:\n    got = attack()\nexcept OSError as e:\n    got = 'refused'\ngot"
}

// What this engine refuses beyond what all do.
func TestAttacksOnTheZygoteFail(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	for _, c := range []struct{ name, body string }{
		{"the folder of other runs cannot be listed", "return os.listdir('/work')"},
		{"nothing is left in /tmp", "open('/tmp/x', 'w')"},
		{"nothing is left in /dev/shm", "open('/dev/shm/x', 'w')"},
		{"the folder of the Python files is closed", "return os.listdir('/run/toolroom')"},
		{"netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"},
		{"a signal to all", "os.kill(-1, signal.SIGKILL)"},
		{"the zygote's environment in /proc", "return open('/proc/1/environ').read()"},
		{"the list of processes", "return os.listdir('/proc')"},
		{"one's own memory map in /proc", "return open('/proc/self/maps').read()"},
		{"sysfs", "return os.listdir('/sys')"},
		{"memory that no limit counts", "os.memfd_create('x')"},
		{"descriptors of the zygote", "for fd in range(4, 1024):\n    try: os.fstat(fd)\n    except OSError: continue\n    return fd\nraise OSError(9, 'none')"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := value(t, e, "attacker", tried(c.body)); got != bridge.Value("refused") {
				t.Errorf("it was not refused: %v", got)
			}
		})
	}
}

func TestTheEnvironmentHoldsNothingButWhatItMust(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	got := value(t, e, "a", "import os\nsorted(os.environ)")
	want := []bridge.Value{"HOME", "LANG", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PATH", "TMPDIR"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the environment differs (-want +got):\n%s", diff)
	}
}

func TestARunLeavesNoFilesHoweverItNamesThem(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{SparePerOwner: 1})
	value(t, e, "a", `
import os
for i in range(2000):
    os.mkdir("d"); os.chdir("d")
    open("f", "w").write("x")
    if i % 100 == 0: os.chmod("f", 0)
os.chmod(".", 0)
None`)
	// All inodes of the owner's folder can be had again, once what the last run left has been
	// removed. Its answer does not wait for that.
	for deadline, done := time.Now().Add(time.Minute), 0; done < 3; {
		got := value(t, e, "a", "import os\nn = 0\ntry:\n    while n < 14000:\n        open(str(n), 'w').close(); n += 1\nexcept OSError: pass\n[n, len(os.listdir('.'))]")
		diff := cmp.Diff([]bridge.Value{int64(14000), int64(14000)}, got)
		if diff == "" {
			done++
		} else if time.Now().After(deadline) {
			t.Fatalf("an earlier run's files are in the way (-want +got):\n%s", diff)
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

// Ten thousand runs, each of which leaves something and looks for what others
// have left; the zygote must be after them what it was before.
func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	e := pynative.New(pynative.Options{SparePerOwner: 8})
	o := options
	o.New = func(*testing.T) engine.Engine { return e }
	runs := enginetest.Leak(t, o)
	if s := e.Stats(); s.Hits+s.Misses != runs || s.Zygotes != 1 || s.Failed != 0 {
		t.Errorf("%d runs are counted as %+v", runs, s)
	}
}

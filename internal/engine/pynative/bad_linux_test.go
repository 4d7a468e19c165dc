package pynative_test

import (
	"context"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/pynative"
)

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})

	// Another program of the same owner goes on all the while.
	beating, stop := context.WithCancel(t.Context())
	beats, heart := make(chan struct{}, 1), make(chan error, 1)
	var last *engine.Result
	go func() {
		source := "import time\nwhile True: call_tool('echo:value', value=1); time.sleep(0.05)"
		j := job("a", source)
		j.Program.Limits = bridge.Limits{Wall: 300_000, Calls: 1_000_000, Bytes: 1 << 40}
		result, err := e.Run(beating, j, heartbeat{beats: beats})
		last = result
		heart <- err
	}()

	for _, c := range []struct {
		name, source string
		limits       bridge.Limits
		code         toolroom.Code      // the run ends with it, or
		kind         bridge.FailureKind // the program fails so; neither means that it succeeds
	}{
		{"an endless loop", "while True: pass", bridge.Limits{Wall: 500}, toolroom.CodeTimeout, ""},
		{"an endless loop that catches everything", "while True:\n    try:\n        while True: call_tool('echo:value', value=1)\n    except BaseException: pass", bridge.Limits{Wall: 500, Calls: 100_000}, toolroom.CodeTimeout, ""},
		{"sleeping for ever", "import time\ntime.sleep(1e6)", bridge.Limits{Wall: 500}, toolroom.CodeTimeout, ""},
		{"a loop over its CPU time", "while True: pass", bridge.Limits{Wall: 30_000, CPU: 500}, toolroom.CodeResourceLimit, ""},
		{"deep recursion", "def f(): f()\nf()", bridge.Limits{}, "", bridge.FailProgram},
		{"deep recursion with its guard removed", "import sys\nsys.setrecursionlimit(10**9)\ndef f(*a): f(*a)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())", bridge.Limits{}, toolroom.CodeExecutionFailed, ""},
		{"a memory bomb", "x = []\nwhile True: x.append('x' * 1_000_000)", bridge.Limits{Memory: 64 << 20}, "", bridge.FailLimit},
		{"one huge allocation", "bytearray(1 << 40)", bridge.Limits{}, "", bridge.FailLimit},
		{"shared memory as a bomb", "import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 24))", bridge.Limits{Memory: 64 << 20}, "", bridge.FailProgram},
		{"huge output", "while True: print('x' * 10_000)", bridge.Limits{Output: 1 << 20}, toolroom.CodeResourceLimit, ""},
		{"a fork bomb", "import os\nwhile True: os.fork()", bridge.Limits{}, "", bridge.FailProgram},
		{"a thread bomb", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()", bridge.Limits{}, "", bridge.FailProgram},
		{"a busy regex", "import re\nre.match('(a+)+$', 'a' * 40 + 'b')", bridge.Limits{Wall: 500}, toolroom.CodeTimeout, ""},
		{"a giant integer", "10 ** 10 ** 10", bridge.Limits{Wall: 500}, toolroom.CodeTimeout, ""},
		{"a giant integer as the value", "1 << 10_000_000", bridge.Limits{}, "", bridge.FailValue},
		{"a cyclic value", "x = {}\nx['x'] = x\nx", bridge.Limits{}, "", bridge.FailValue},
		{"a value whose reading throws", "class D(dict):\n    def items(self): raise RuntimeError('no')\nD(a=1)", bridge.Limits{}, "", bridge.FailProgram},
		{"a full disk", "n = 0\nwhile True:\n    open(str(n), 'w').write('x' * 1_000_000)\n    n += 1", bridge.Limits{}, "", bridge.FailProgram},
		{"ten thousand parallel calls", "import asyncio\nlen(await asyncio.gather(*[call_tool('echo:value', value=i) for i in range(10_000)]))", bridge.Limits{Calls: 10_000}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := job("a", c.source)
			if c.limits.Wall == 0 {
				c.limits.Wall = 60_000
			}
			j.Program.Limits = c.limits
			result, err := e.Run(t.Context(), j, &heartbeat{})
			var kind bridge.FailureKind
			if err == nil && result.Outcome.Failure != nil {
				kind = result.Outcome.Failure.Kind
			}
			if c.code != "" && toolroom.CodeOf(err) != c.code || c.code == "" && (err != nil || kind != c.kind) {
				t.Errorf("it ended with %+v, %v; want code %q, kind %q", result, err, c.code, c.kind)
			}
			select {
			case <-beats:
			default:
			}
			select {
			case <-beats:
			case err := <-heart:
				t.Fatalf("the other program has ended: %v", err)
			case <-time.After(20 * time.Second):
				t.Fatal("the other program stands still")
			}
		})
	}
	stop()
	err := <-heart
	toldSo := err == nil && last.Outcome.Failure != nil && last.Outcome.Failure.Kind == bridge.FailCancelled
	if toolroom.CodeOf(err) != toolroom.CodeCancelled && !toldSo {
		t.Errorf("the other program ended with %+v, %v, want it cancelled", last, err)
	}
}

// heartbeat is a host that tells of each call.
type heartbeat struct {
	bridge.Host
	beats chan struct{}
}

func (h heartbeat) Call(_ context.Context, _ string, arguments bridge.Map) (bridge.Value, error) {
	select {
	case h.beats <- struct{}{}:
	default:
	}
	return arguments.Get("value"), nil
}

func (heartbeat) Print(string, string) {}

// A zygote and a program of one owner live and die apart.
func TestTheEndOfAZygoteIsNotTheEndOfItsOwner(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{Idle: 50 * time.Millisecond})
	for range 3 {
		if got := value(t, e, "a", "40 + 2"); got != bridge.Value(int64(42)) {
			t.Fatalf("got %v", got)
		}
		for e.Stats().Zygotes > 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func TestTheOwnerThatIsUnusedForLongestMakesRoom(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{Owners: 2})
	for _, owner := range []string{"a", "b", "c", "a"} {
		value(t, e, owner, "1")
		if n := e.Stats().Zygotes; n > 3 {
			t.Errorf("there are %d zygotes", n)
		}
	}
}

func TestWhatTheEngineCannotHoldItSaysBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	for name, change := range map[string]func(*engine.Job){
		"processors": func(j *engine.Job) { j.Sandbox.Limits.CPUs = 0.5 },
		"a network":  func(j *engine.Job) { j.Sandbox.Profile = "dev" },
		"disk":       func(j *engine.Job) { j.Sandbox.Limits.Disk = 1 << 20 },
		"state":      func(j *engine.Job) { j.Program.State = []byte("x") },
	} {
		j := job("a", "call_tool('echo:value', value=1)")
		change(&j)
		h := &host{}
		result, err := e.Run(t.Context(), j, h)
		refused := toolroom.CodeOf(err) == toolroom.CodeLimitNotEnforceable || err == nil && result.Outcome.Failure != nil && result.Outcome.Failure.Kind == bridge.FailUnsupported
		if !refused || len(h.calls) > 0 {
			t.Errorf("%s: got %+v, %v", name, result, err)
		}
	}
}

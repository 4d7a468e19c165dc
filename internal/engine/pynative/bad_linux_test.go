package pynative_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/pynative"
	"github.com/toolroom/toolroom/sandbox"
)

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

func TestAProgramWhoseTimeIsOverBeforeItsZygoteIsReadyHasTimedOut(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	if p := e.Probe(t.Context()); p.State != sandbox.Available {
		t.Fatal(p.Reason)
	}
	short, stop := context.WithTimeoutCause(t.Context(), 5*time.Millisecond, engine.ErrWall)
	defer stop()
	if _, err := e.Run(short, job("a", "1"), &host{}); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Errorf("it ended with %v", err)
	}
	if got := value(t, e, "a", "1 + 1"); got != bridge.Value(int64(2)) {
		t.Errorf("the next run gave %v", got)
	}
}

func TestTheStartOfAZygoteDoesNotCountAsTimeOfItsProgram(t *testing.T) {
	t.Parallel()
	e := open(t, pynative.Options{})
	folder := t.TempDir()
	if err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "slow.py"), []byte("import time\ntime.sleep(1.5)\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	j := job("a", "import slow\n1 + 1")
	j.Layer = engine.Layer{Digest: "slow", Path: folder, Preload: []string{"slow"}}
	j.Program.Limits.Wall = 1000
	result, err := e.Run(t.Context(), j, &host{})
	if err != nil || result.Outcome.Value != bridge.Value(int64(2)) {
		t.Fatalf("it ended with %+v, %v", result, err)
	}
	if result.Start < 1500*time.Millisecond {
		t.Errorf("the start took %s", result.Start)
	}
}

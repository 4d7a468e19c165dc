//go:build integration

package runtimes

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// restoring is an engine whose sandboxes start from checkpoints, and the folder of the
// checkpoints.
func restoring(t *testing.T) (*hosted.Engine, string) {
	t.Helper()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	work := folder(t)
	e := hosted.New(gvisor.New(gvisor.Options{Work: work, Root: made.root, Restore: true}))
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(work, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return e, work
}

// checkpoints returns the checkpoints in a folder.
func checkpoints(t *testing.T, work string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(work, "*", "checkpoint.img"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// of runs a program, which must succeed, and returns its value.
func of(t *testing.T, e *hosted.Engine, p bridge.Program) bridge.Value {
	t.Helper()
	p.Limits.Wall = 60_000
	result, err := e.Run(t.Context(), engine.Job{
		Run: "kept", Owner: "tester", Program: p,
		Sandbox: sandbox.Spec{Profile: sandbox.Standard, Guest: made.guest, Limits: sandbox.Limits{Memory: 256 << 20}},
	}, &listener{})
	if err != nil || result.Outcome.Failure != nil || result.Outcome.Exit != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	return result.Outcome.Value
}

func TestSandboxesOfGVisorThatBeginFromACheckpointDiffer(t *testing.T) {
	t.Parallel()
	e, work := restoring(t)
	drawn := map[bridge.Value]bool{}
	const runs = 4
	for run := range runs {
		// The checkpoint has asyncio loaded, and with it random.
		value := of(t, e, bridge.Program{
			Language: "python", Name: "main.py",
			Source: "import os, random, time\nopen('mark', 'x').close()\n[random.random(), os.urandom(8).hex(), time.time(), 'TOOLROOM_HOLD' in os.environ]",
		}).([]bridge.Value)
		drawn[value[0]], drawn[value[1]] = true, true
		if off := time.Since(time.UnixMicro(int64(value[2].(float64) * 1e6))); off.Abs() > time.Minute {
			t.Errorf("the clock of the sandbox is off by %s", off)
		}
		if value[3] != bridge.Value(false) {
			t.Error("the program sees how its sandbox began")
		}
		if kept := checkpoints(t, work); len(kept) != min(run, 1) {
			t.Errorf("after run %d there is %v: one is made for the second", run, kept)
		}
	}
	if len(drawn) != 2*runs {
		t.Errorf("sandboxes drew the same numbers: %v", drawn)
	}
	// The preparation for Python is neither used here nor harmful.
	of(t, e, bridge.Program{Language: "shell", Source: "test ! -e mark && echo hello"})
	of(t, e, bridge.Program{Language: "javascript", Source: "return 1"})
	of(t, e, bridge.Program{Language: "python", Name: "main.py", Source: "import os\nassert os.environ['OWN'] == '1'", Env: []string{"OWN=1"}})
}

func TestABrokenCheckpointIsReplaced(t *testing.T) {
	t.Parallel()
	e, work := restoring(t)
	shell := bridge.Program{Language: "shell", Source: "true"}
	for range 2 {
		of(t, e, shell)
	}
	for _, path := range checkpoints(t, work) {
		if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := e.Run(t.Context(), engine.Job{
		Run: "broken", Owner: "tester", Program: shell,
		Sandbox: sandbox.Spec{Profile: sandbox.Standard, Guest: made.guest, Limits: sandbox.Limits{Memory: 256 << 20}},
	}, &listener{})
	refused(t, err, "before its hello", "")
	if kept := checkpoints(t, work); len(kept) > 0 {
		t.Errorf("it is still there: %v", kept)
	}
	of(t, e, shell)
}

// BenchmarkCheckpoint measures a program from the call to its first output, in sandboxes of
// gVisor that start from a checkpoint and, in turn with them, in sandboxes that start cold.
func BenchmarkCheckpoint(b *testing.B) {
	program(b, "runsc", "gvisor.dev/gvisor/runsc")
	for _, p := range []bridge.Program{
		{Language: "python", Name: "main.py", Source: "print('begun')"},
		{Language: "shell", Source: "echo begun"},
	} {
		b.Run(p.Language, func(b *testing.B) {
			plain := hosted.New(gvisor.New(gvisor.Options{Work: folder(b), Root: made.root}))
			kept := hosted.New(gvisor.New(gvisor.Options{Work: folder(b), Root: made.root, Restore: true}))
			defer kept.Close()
			var times [2][]time.Duration
			for round := 0; b.Loop(); round++ {
				for i, e := range []*hosted.Engine{plain, kept} {
					began, h := time.Now(), &listener{}
					job := engine.Job{Run: "begin", Owner: "tester", Sandbox: usual(), Program: p}
					if result, err := e.Run(b.Context(), job, h); err != nil || h.heard.IsZero() {
						b.Fatalf("%+v, %v", result, err)
					}
					if round > 1 { // the second makes the checkpoint
						times[i] = append(times[i], h.heard.Sub(began))
					}
				}
			}
			if len(times[0]) == 0 {
				b.Skip("it needs more rounds: -benchtime 10x")
			}
			for i, name := range []string{"plain", "restored"} {
				slices.Sort(times[i])
				b.ReportMetric(times[i][0].Seconds()*1000, "least-"+name+"-ms")
				b.ReportMetric(times[i][len(times[i])/2].Seconds()*1000, "median-"+name+"-ms")
			}
		})
	}
}

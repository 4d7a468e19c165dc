package module_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// screen is a call handler that records the output and has no tools.
type screen struct {
	bridge.Handler
	mu     sync.Mutex
	pieces []string // each with its stream
}

func (s *screen) Print(stream, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.pieces); n > 0 && strings.HasPrefix(s.pieces[n-1], stream+": ") {
		s.pieces[n-1] += text
		return
	}
	s.pieces = append(s.pieces, stream+": "+text)
}

// program returns a program of the suite, with time for slow machines.
func program(t *testing.T, command ...string) engine.Job {
	t.Helper()
	return engine.Job{Run: "run", Owner: "tester", Program: bridge.Program{
		Language: "wasm", Name: "main.wasm", Module: suite(t).Module, Command: command, Limits: bridge.Limits{Wall: 300_000},
	}}
}

func run(t *testing.T, e engine.Engine, j engine.Job) (*engine.Result, *screen) {
	t.Helper()
	s := &screen{}
	result, err := e.Run(t.Context(), j, s)
	if err != nil {
		t.Fatal(err)
	}
	return result, s
}

func TestAModuleHasStreamsAndNothingElseOfTheSystem(t *testing.T) {
	t.Parallel()
	result, s := run(t, opened(t), program(t, "system"))
	if f := result.Outcome.Failure; f != nil || result.Outcome.Exit != 0 {
		t.Fatalf("it ended with %v, exit code %d", f, result.Outcome.Exit)
	}
	want := `stdout: arguments main.wasm system
environment 0
open / refused
open . refused
open /etc/passwd refused
open /proc/self/environ refused
open ../../etc/passwd refused
write refused
make a folder refused
remove refused
rename refused
link refused
descriptor 0 58 58 58 58 8
descriptor 1 58 58 58 58 8
descriptor 2 58 58 58 58 8
descriptor 3 58 58 58 58 8
descriptor 4 58 58 58 58 8
descriptor 5 58 58 58 58 8
` // 58 is notsup, 8 badf: types errno of WASI preview 1
	if diff := cmp.Diff(want, strings.Join(s.pieces, "")); diff != "" {
		t.Errorf("it found (-want +got):\n%s", diff)
	}
}

func TestOutputKeepsItsOrderAndItsStreams(t *testing.T) {
	t.Parallel()
	_, s := run(t, opened(t), program(t, "print"))
	if diff := cmp.Diff([]string{"stdout: out 1\n", "stderr: error\n", "stdout: grüße\n"}, s.pieces); diff != "" {
		t.Errorf("it printed (-want +got):\n%s", diff)
	}
}

func TestCharactersWrittenByteByByteStayWhole(t *testing.T) {
	t.Parallel()
	_, s := run(t, opened(t), program(t, "bytes"))
	if diff := cmp.Diff("stdout: "+strings.Repeat("ü€🦜", 5_000), strings.Join(s.pieces, "")); diff != "" {
		t.Errorf("it printed (-want +got):\n%s", diff)
	}
}

func TestAModuleThatWaitsAfterItsDoneFrameDelaysNoOther(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for range 3 {
		if result, _ := run(t, e, program(t, "rest")); result.Outcome.Value != bridge.Value(int64(1)) {
			t.Errorf("it gave %+v", result.Outcome)
		}
	}
}

func TestTheExitCodeIsReportedAndInputIsRead(t *testing.T) {
	t.Parallel()
	e := opened(t)
	j := program(t, "exit", "3")
	if result, _ := run(t, e, j); result.Outcome.Exit != 3 || result.Outcome.Failure != nil {
		t.Errorf("it ended with %+v", result.Outcome)
	}
	j = program(t, "copy")
	j.Program.Stdin = bytes.Repeat([]byte("grüße\n"), 20_000)
	if _, s := run(t, e, j); strings.Join(s.pieces, "") != "stdout: "+string(j.Program.Stdin) {
		t.Errorf("%d bytes went in, %d pieces came out", len(j.Program.Stdin), len(s.pieces))
	}
}

func TestRandomNumbersFollowTheSeed(t *testing.T) {
	t.Parallel()
	e := opened(t)
	draw := func(seed string) string {
		j := program(t, "random")
		j.Program.Seed = []byte(seed)
		_, s := run(t, e, j)
		return strings.Join(s.pieces, "")
	}
	first := draw("a")
	again, other, free, freeToo := draw("a"), draw("b"), draw(""), draw("")
	if again != first || other == first || free == freeToo {
		t.Error("the same seed draws different numbers, or another or no seed the same")
	}
}

func TestAHardenedModuleHasNoClockAndCanWait(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for profile, want := range map[sandbox.Profile]string{sandbox.Standard: "slept true 20", sandbox.Hardened: "slept true 2000"} {
		j := program(t, "system", "clock")
		j.Sandbox.Profile = profile
		if _, s := run(t, e, j); !strings.Contains(strings.Join(s.pieces, ""), want) {
			t.Errorf("%s: %q, want %q", profile, s.pieces, want)
		}
	}
	var seen []string
	for range 2 {
		j := program(t, "system", "clock")
		j.Sandbox.Profile = sandbox.Hardened
		_, s := run(t, e, j)
		seen = append(seen, strings.Join(s.pieces, ""))
	}
	if seen[0] != seen[1] {
		t.Errorf("two runs differ: %s", cmp.Diff(seen[0], seen[1]))
	}
}

func TestAPackedModuleRunsAndABombDoesNot(t *testing.T) {
	t.Parallel()
	e := opened(t)
	j := program(t, "two")
	j.Program.Module = packed(t, j.Program.Module)
	if result, _ := run(t, e, j); result.Outcome.Value != bridge.Value(int64(2)) {
		t.Errorf("it gave %+v", result.Outcome)
	}
	j.Program.Module = packed(t, make([]byte, 65<<20))
	if result, _ := run(t, e, j); result.Outcome.Failure == nil || !strings.Contains(result.Outcome.Failure.Message, "64 MiB") {
		t.Errorf("it gave %+v", result.Outcome)
	}
}

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// more modules than a worker keeps, one after the other and again.
func TestAWorkerKeepsAFewModules(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for range 2 {
		for n := range byte(6) {
			j := engine.Job{Owner: "tester", Program: bridge.Program{Language: "wasm", Name: "main.wasm", Module: exits(n)}}
			if result, _ := run(t, e, j); result.Outcome.Exit != int(n) {
				t.Errorf("module %d ended with %+v", n, result.Outcome)
			}
		}
	}
}

func TestARunThatIsCancelledWhileItComputesEnds(t *testing.T) {
	t.Parallel()
	e := opened(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := program(t, "say", "spin")
	_, err := e.Run(ctx, j, &canceller{end: cancel})
	if toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("it ended with %v", err)
	}
}

// canceller cancels a run at its first output.
type canceller struct {
	bridge.Handler
	end func()
}

func (c *canceller) Print(string, string) { c.end() }

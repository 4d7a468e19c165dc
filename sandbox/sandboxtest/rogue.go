package sandboxtest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

// rogueCase is the expected outcome of a rogue guest's run.
type rogueCase struct {
	conduct string
	code    toolroom.Code // empty if the run succeeds
	message []string      // parts of the error message
	// codeIfUnseen is the code if the engine does not see what the guest did.
	codeIfUnseen toolroom.Code
}

var rogueCases = []rogueCase{
	{rogue.Stillborn, toolroom.CodeSandboxUnavailable, []string{"before its hello", "exit code 42", rogue.LastWords}, ""},
	{rogue.Crash, toolroom.CodeExecutionFailed, []string{"ended early", "exit code 42", rogue.LastWords}, ""},
	{rogue.FloodStderr, toolroom.CodeExecutionFailed, []string{"ended early", "exit code 42", rogue.LastWords}, ""},
	{rogue.Shut, toolroom.CodeExecutionFailed, []string{"ended early", "ended its stream"}, toolroom.CodeTimeout},
	{rogue.Garbage, toolroom.CodeExecutionFailed, []string{"ended early", "protocol"}, ""},
	{rogue.FloodOutput, toolroom.CodeResourceLimit, []string{"printed more than"}, ""},
	{rogue.FloodCalls, toolroom.CodeResourceLimit, []string{"limit of 10 calls"}, ""},
	{rogue.Hang, toolroom.CodeTimeout, nil, ""},
	{rogue.Linger, "", nil, ""},
	{rogue.Silent, toolroom.CodeSandboxUnavailable, []string{"no hello within"}, ""},
}

// Rogue tests guests that crash, flood and hang. Each run must end with an error that
// names the cause and the fix, the next program must run, and nothing may be left. The
// guest must call [rogue.Main], as ./escape/guest does.
func Rogue(t *testing.T, o Options) {
	s := &suite{t: t, o: o, engine: hosted.New(o.New(t))}
	began := time.Now()
	if out := s.shellRun(t, `exit 5`, sandbox.Limits{}); out.err != nil || out.Outcome.Exit != 5 {
		t.Fatalf("a good program ended with %v", out)
	}
	// The guests that do nothing use up the whole time-out. It suffices for several starts at
	// once on a loaded machine: a guest that is killed before its start would show nothing.
	timeout := max(15*time.Second, 8*time.Since(began))
	var waiting sync.WaitGroup
	for _, f := range rogueCases {
		if f.usesWholeTimeout() {
			waiting.Go(func() { s.testRogue(f, timeout) })
		}
	}
	waiting.Wait()
	for _, f := range rogueCases {
		if !f.usesWholeTimeout() {
			s.testRogue(f, timeout)
		}
	}
	if o.Leftovers != nil {
		if left := o.Leftovers(t); len(left) > 0 {
			t.Errorf("the driver left behind:\n%s", strings.Join(left, "\n"))
		}
	}
}

// usesWholeTimeout reports whether a run with the guest takes the whole time-out. Such runs wait at the
// same time.
func (f rogueCase) usesWholeTimeout() bool {
	return f.conduct == rogue.Silent || f.code == toolroom.CodeTimeout || f.codeIfUnseen == toolroom.CodeTimeout
}

// testRogue tests one rogue guest, and that the next program runs.
func (s *suite) testRogue(f rogueCase, timeout time.Duration) {
	s.t.Run(f.conduct, func(t *testing.T) {
		e := s.engine
		if f.conduct == rogue.Silent {
			e = hosted.New(s.o.New(t))
			e.StartTimeout = timeout
		}
		s.runRogue(t, e, f, timeout)
		if out := s.shellRun(t, `exit 5`, sandbox.Limits{}); out.err != nil || out.Outcome.Exit != 5 {
			t.Errorf("the program after it ended with %v", out)
		}
	})
}

// runRogue runs a program in the sandbox of a rogue guest and checks the outcome. timeout is
// the time limit of runs that should reach it.
func (s *suite) runRogue(t *testing.T, e *hosted.Engine, f rogueCase, timeout time.Duration) {
	t.Helper()
	spec := s.spec(sandbox.Standard)
	spec.Env = append(spec.Env, rogue.Env+"="+f.conduct)
	spec.Run = "rogue-" + f.conduct
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	limits := bridge.Limits{Wall: 60_000, Calls: 10}
	if f.usesWholeTimeout() && f.conduct != rogue.Silent {
		limits.Wall = timeout.Milliseconds()
	}
	result, err := e.Run(ctx, engine.Job{
		Run: spec.Run, Owner: "tester", Sandbox: spec, Program: bridge.Program{Language: "shell", Name: "main.sh", Source: "exit 5", Limits: limits},
	}, &handler{})
	if f.code == "" {
		if err != nil || result.Outcome.Value != bridge.Value("done") {
			t.Errorf("the run ended with %v, %+v", err, result)
		}
		return
	}
	const most = 16 << 10 // the guest's text in the message is sent to a model
	failed := toolroom.AsError(err)
	if failed != nil && failed.Code == f.codeIfUnseen && failed.Hint != "" {
		return
	}
	if failed == nil || failed.Code != f.code || failed.Hint == "" || len(failed.Message) > most {
		t.Fatalf("the run ended with %.2000v, want %s with a hint", err, f.code)
	}
	for _, want := range f.message {
		if !strings.Contains(failed.Message, want) {
			t.Errorf("the error lacks %q: %.2000v", want, err)
		}
	}
}

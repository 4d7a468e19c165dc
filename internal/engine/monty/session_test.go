package monty_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

func TestASessionGoesOnFromItsState(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	var state []byte
	run := func(source string) bridge.Outcome {
		t.Helper()
		j := job(source, bridge.Limits{})
		j.Program.Session, j.Program.State = "s", state
		result, err := e.Run(t.Context(), j, silent{})
		if err != nil {
			t.Fatal(err)
		}
		if state = result.Outcome.State; len(state) == 0 {
			t.Fatal("the run gave no state")
		}
		return result.Outcome
	}
	run("n = tools.number.same(n=40)\ndef more(x):\n    return tools.number.same(n=x) + n\nsame = tools.number.same")
	if f := run("n += 1\n1 / 0").Failure; f == nil || f.Type != "ZeroDivisionError" || f.Line != 2 {
		t.Errorf("the second run ended with %+v", f)
	}
	if out := run("same(n=1) + more(0)"); out.Value != bridge.Value(int64(42)) {
		t.Errorf("a function of an earlier run gave %+v, %+v", out.Value, out.Failure)
	}
	if out := run("more(1)"); out.Failure != nil || out.Value != bridge.Value(int64(42)) {
		t.Errorf("the third run gave %+v, %+v", out.Value, out.Failure)
	}
	if f := run("def outer():\n    return more('x')\nouter()").Failure; f == nil || !strings.Contains(f.Trace, `File "an earlier run", line 3, in more`) {
		t.Errorf("the fourth run ended with %+v", f)
	}
	// Another run, without the state, knows nothing of it.
	result, err := e.Run(t.Context(), job("n", bridge.Limits{}), silent{})
	if err != nil || result.Outcome.Failure == nil || result.Outcome.Failure.Type != "NameError" {
		t.Errorf("it got %+v, %v", result.Outcome, err)
	}
}

func TestAStateThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, state := range []string{"x", "{}\nabc", `{"Engine":"py-lite","Protocol":2}` + "\nabc", `{"Engine":"py-lite","Protocol":6}` + "\nabc"} {
		j := job("1", bridge.Limits{})
		j.Program.Session, j.Program.State = "s", []byte(state)
		if _, err := e.Run(t.Context(), j, silent{}); err == nil || !strings.Contains(toolroom.AsError(err).Hint, "new") {
			t.Errorf("%q ended with %v", state, err)
		}
	}
}

// failing fails with an error that has everything.
type failing struct{ silent }

func (failing) Call(context.Context, string, bridge.Map) (bridge.Value, error) {
	e := toolroom.Errorf(toolroom.CodeRateLimited, "too many").WithHint("wait a minute")
	e.Tool, e.Phase, e.Retryable, e.Details = "number:same", toolroom.PhaseExecute, true, map[string]any{"retry_after": 60}
	return nil, e
}

func TestACaughtErrorHasItsDetailsWhereverItIsNamed(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	source := `def attempt():
    try:
        return tools.number.same(n=1)
    except ToolError as problem:
        text = f"{problem.code}: {problem.message} / {problem}"
        try:
            int('x')
        except ArithmeticError as inner: pass
        except Exception as inner:
            try:
                inner.code
            except AttributeError as e:
                return [text, problem.details['retry_after'], str(e)]
attempt()`
	result, err := e.Run(t.Context(), job(source, bridge.Limits{}), failing{})
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result.Outcome.Failure, err)
	}
	got, _ := result.Outcome.Value.([]bridge.Value)
	want := []bridge.Value{"rate_limited: too many / too many [rate_limited] (wait a minute)", int64(60), "'ValueError' object has no attribute 'code'"}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestColumnsAreThoseOfTheAuthor(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	source := "try:\n    tools.number.same(n=1)\nexcept ToolError as e: e.code; 1 / 0"
	result, err := e.Run(t.Context(), job(source, bridge.Limits{}), failing{})
	if err != nil || result.Outcome.Failure == nil {
		t.Fatalf("%+v, %v", result, err)
	}
	if f := result.Outcome.Failure; f.Line != 3 || f.Column != strings.Index("except ToolError as e: e.code; 1 / 0", "1 /")+1 || !strings.Contains(f.Trace, "except ToolError as e: e.code; 1 / 0") {
		t.Errorf("the failure is at %d:%d, %v\n%s", f.Line, f.Column, f, f.Trace)
	}
}

// A session is imported from a file, which anybody can write.
func TestAStateWithANamespaceWithoutANameIsRefused(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	j := job("n = tools.number", bridge.Limits{})
	j.Program.Session = "s"
	result, err := e.Run(t.Context(), j, silent{})
	if err != nil {
		t.Fatal(err)
	}
	j.Program.Source = "n.other"
	j.Program.State = bytes.ReplaceAll(result.Outcome.State, []byte(`"Path":["tools","number"]`), []byte(`"Path":[]`))
	if _, err = e.Run(t.Context(), j, silent{}); err == nil || toolroom.AsError(err).Code != toolroom.CodeInvalidArguments {
		t.Errorf("it ended with %v", err)
	}
}

// breaking is a host that panics.
type breaking struct{ silent }

func (breaking) Print(string, string) { panic("broken") }

func TestARunThatPanicsGivesItsWorkerBack(t *testing.T) {
	t.Parallel()
	e := open(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the run did not panic")
			}
		}()
		_, _ = e.Run(t.Context(), job("print(1)", bridge.Limits{}), breaking{})
	}()
	closed := make(chan struct{})
	go func() {
		_ = e.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Fatal("Close waits for the worker")
	}
}

package monty_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// watched is a host that knows what it was asked, and denies it.
type watched struct {
	silent
	mu    sync.Mutex
	asked []string
}

func (w *watched) Call(_ context.Context, tool string, _ bridge.Map) (bridge.Value, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, tool)
	return nil, toolroom.Errorf(toolroom.CodeDenied, "%s is not for you", tool)
}

func TestAnAttackFromInsideFindsNothing(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	// try gives the class of the error that an expression raises, or its value.
	const try = "def attempt(f):\n    try:\n        return f()\n    except Exception as e:\n        return type(e).__name__\n"
	for _, c := range []struct {
		name, source string
		want         bridge.Value
	}{
		{"a file cannot be read", try + "attempt(lambda: open('/etc/passwd').read())", "PermissionError"},
		{"the binary cannot be read", try + "attempt(lambda: open('/run/monty', 'rb').read(4))", "PermissionError"},
		{"procfs cannot be read", try + "from pathlib import Path\nattempt(lambda: Path('/proc/self/maps').read_text())", "PermissionError"},
		{"a folder cannot be listed", try + "from pathlib import Path\nattempt(lambda: list(Path('/').iterdir()))", "PermissionError"},
		{"a file cannot be written", try + "from pathlib import Path\nattempt(lambda: Path('/tmp/x').write_text('x'))", "PermissionError"},
		{"a file is not there even when it is", try + "from pathlib import Path\nattempt(lambda: Path('/etc/passwd').exists())", "PermissionError"},
		{"an object of a tool leads nowhere", try + "attempt(lambda: tools.__class__.__mro__)", "AttributeError"},
		{"a function leads nowhere", try + "attempt(lambda: attempt.__globals__)", "AttributeError"},
		{"eval is no way out", try + "attempt(lambda: eval('open(\"/etc/passwd\")'))", "PermissionError"},
		{"getattr is no way out", try + "attempt(lambda: getattr(tools, '__init__'))", "AttributeError"},
		{
			"an object of the host can be made by nobody else",
			"class Fake:\n    def __init__(self): self.path = ['secret']\ntype(Fake()).__name__", "Fake",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			result, err := e.Run(t.Context(), job(c.source, bridge.Limits{}), &watched{})
			if err != nil || result.Outcome.Failure != nil {
				t.Fatalf("%+v, %v", result.Outcome.Failure, err)
			}
			if diff := cmp.Diff(c.want, result.Outcome.Value); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, source := range []string{
		"import os\nos.environ", "import os\nos.system('id')", "import os\nos.fork()", "import os\nos.kill(1, 9)", "import socket", "import subprocess",
		"import ctypes", "import sys\nsys.modules", "import os\nos.getppid()", "__import__('os')", "globals()", "[].__class__.__base__.__subclasses__()",
	} {
		t.Run(source, func(t *testing.T) {
			result, err := e.Run(t.Context(), job(source, bridge.Limits{}), &watched{})
			if err != nil || result.Outcome.Failure == nil {
				t.Errorf("it gave %+v, %v", result.Outcome.Value, err)
			}
		})
	}
}

func TestToolsAreAskedOfTheHostWhateverTheProgramWasToldOf(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	host := &watched{}
	source := `seen = []
for call in [lambda: call_tool("secret:read"), lambda: tools["secret"]["read"](), lambda: mcp.secret.read(), lambda: cli["secret"].read(), lambda: cli("secret").read(), lambda: run("secret:read"), lambda: getattr(getattr(tools, "secret"), "read")()]:
    try:
        call()
    except ToolError as e:
        seen.append(e.code)
seen`
	result, err := e.Run(t.Context(), job(source, bridge.Limits{}), host)
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result.Outcome.Failure, err)
	}
	want := []bridge.Value{"denied", "denied", "denied", "denied", "denied", "denied", "denied"}
	if diff := cmp.Diff(want, result.Outcome.Value); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(host.asked, " "); got != strings.TrimSpace(strings.Repeat("secret:read ", 7)) {
		t.Errorf("the host was asked for %s", got)
	}
}

func TestRunsSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	leave := "import json\nleak = 1\ntools.leak = 1\njson.leak = 1\nNone"
	look := `seen = []
for name in ['leak', 'tools.leak', 'json.leak']:
    try:
        if eval(name) == 1:
            seen.append(name)
    except (NameError, AttributeError, RuntimeError):
        pass
import json
seen`
	for range 1000 {
		if _, err := e.Run(t.Context(), job(leave, bridge.Limits{}), silent{}); err != nil {
			t.Fatal(err)
		}
		result, err := e.Run(t.Context(), job(look, bridge.Limits{}), silent{})
		if err != nil || result.Outcome.Failure != nil {
			t.Fatalf("%+v, %v", result.Outcome.Failure, err)
		}
		if diff := cmp.Diff([]bridge.Value{}, result.Outcome.Value); diff != "" {
			t.Fatalf("a later run sees an earlier one (-want +got):\n%s", diff)
		}
	}
}

func TestEachRunHasItsOwnRandomNumbers(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	seen := map[bridge.Value]bool{}
	for range 50 {
		result, err := e.Run(t.Context(), job("import random, os\nf'{random.random()} {os.urandom(8)}'", bridge.Limits{}), silent{})
		if err != nil || result.Outcome.Failure != nil || seen[result.Outcome.Value] {
			t.Fatalf("%+v again, %v", result.Outcome, err)
		}
		seen[result.Outcome.Value] = true
	}
}

func TestOwnersDoNotMeet(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	var wg sync.WaitGroup
	for _, owner := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range 20 {
				j := job("try:\n    left\n    seen = True\nexcept NameError:\n    seen = False\nleft = 1\nseen", bridge.Limits{})
				j.Owner = owner
				result, err := e.Run(t.Context(), j, silent{})
				if err != nil || result.Outcome.Value != bridge.Value(false) {
					t.Errorf("%+v, %v", result, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAWorkerIsLockedAsFarAsTheMachineAllows(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("there is no isolation but on Linux")
	}
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	p := e.Probe(t.Context())
	if !strings.HasPrefix(p.Isolation, "monty+") || !strings.Contains(p.Isolation, "seccomp") {
		t.Errorf("the isolation is %q", p.Isolation)
	}
}

package monty_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/monty"
	"github.com/toolroom/toolroom/internal/lockdown"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	if len(os.Args) > 1 && os.Args[1] == "subprocess" {
		captured()
		return
	}
	os.Exit(m.Run())
}

// open makes an engine of the worker that is installed here.
func open(t testing.TB) *monty.Engine {
	t.Helper()
	path := os.Getenv("TOOLROOM_MONTY")
	if path == "" {
		path, _ = exec.LookPath("monty")
	}
	if path == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no monty: toolroom setup engines installs it, and TOOLROOM_MONTY tells these tests where")
		}
		t.Skip("there is no monty: toolroom setup engines installs it, and TOOLROOM_MONTY tells these tests where")
	}
	return monty.New(monty.Options{Find: func() (string, error) { return path, nil }})
}

var options = enginetest.Options{
	New: func(t *testing.T) engine.Engine { return open(t) },
	// Both need what Monty has not: object, and the modules builtins and sys
	// as things to write to. The second is checked by Leak.
	Without: []string{
		"a tool is called by an id in a variable", // the names of tools are resolved before the run
		"a value that cannot leave says which part", "runs see nothing of each other",
		// Its strings cannot hold half a surrogate pair.
		"text that cannot leave is an error that says which part", "a name that cannot leave is an error that says which part",
		"text that cannot be sent to a tool is an error that says which part", "an error whose text cannot leave is still reported",
		"what is printed shows half a surrogate pair as a mark",
	},
	Bare: true, Memory: 48 << 20, Bad: bad,
}

func TestTheEngineKeepsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, options)
}

func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	enginetest.Leak(t, options)
}

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	enginetest.Bad(t, options)
}

func TestAttacksFromInsideFail(t *testing.T) {
	t.Parallel()
	enginetest.Attack(t, options)
}

const (
	timeout = string(toolroom.CodeTimeout)
	limited = string(toolroom.CodeResourceLimit)
)

func python(source string) map[string]string { return map[string]string{"python": source} }

// bad are programs that this engine must end besides those of the suite.
var bad = []enginetest.BadProgram{
	{Key: "an endless sleep that is awaited", Source: python("import asyncio\nawait asyncio.sleep(1e9)"), Ends: timeout},
	{Key: "an endless map", Source: python("import itertools\nlist(map(str, itertools.count()))"), Ends: limited, Says: "memory"},
	{Key: "an endless sum", Source: python("import itertools\nsum(itertools.count())"), Ends: timeout},
	{Key: "deep recursion in a repr", Source: python("class A:\n    def __repr__(self): return repr(self)\nrepr(A())"), Ends: "program", Says: "recursion"},
	{Key: "source that nests too deep", Source: python(strings.Repeat("(", 5000) + strings.Repeat(")", 5000)), Ends: "syntax", Says: "nested"},
	{Key: "a memory bomb of strings", Source: python("s = 'x'\nwhile True: s += s"), Ends: limited, Says: "memory"},
	{Key: "a memory bomb of dicts that catches everything", Source: python("d = {}\nwhile True:\n    try:\n        d[len(d)] = 'x' * 1000\n    except BaseException:\n        pass"), Ends: limited, Says: "memory"},
	{Key: "a giant power", Source: python("10 ** 10 ** 9"), Ends: limited, Says: "memory"},
	{Key: "a value that is small and unfolds without end", Source: python("a = [1]\nfor _ in range(60): a = [a, a]\na"), Ends: "value", Says: "pieces"},
	{Key: "an argument that is small and unfolds without end", Source: python("a = [1]\nfor _ in range(60): a = [a, a]\ntools.echo.value(value=a)"), Ends: "program", Says: "pieces"},
	{Key: "a value nested too deep to send", Source: python("a = []\nfor _ in range(300): a = [a]\na"), Ends: "value", Says: "nests"},
	{Key: "a function in a value", Source: python("{'rows': [1, lambda: 2]}"), Ends: "value", Says: "rows[1]"},
	{Key: "a class in a value", Source: python("[int]"), Ends: "value", Says: "value[0] is the class int"},
	{Key: "an object in a value", Source: python("class A: pass\n[A()]"), Ends: "value", Says: "value[0] is an object of the class A"},
	{Key: "a number that is none", Source: python("float('inf')"), Ends: "value", Says: "value is"},
	{Key: "keys that are no text", Source: python("{1: 2}"), Ends: "value", Says: "key 1"},
	{Key: "half a surrogate pair", Source: python("x = '\\ud800'\nx"), Ends: "unsupported", Says: "surrogate"},
	{Key: "a text of the whole of nothing", Source: python("\x00"), Ends: "syntax"},
	{Key: "a file", Source: python("open('/etc/passwd').read()"), Ends: "program", Says: "PermissionError"},
	{Key: "an import of nothing", Source: python("import nothing.at.all"), Ends: "unsupported", Says: "nothing"},
	{Key: "an object of a tool that leads nowhere", Source: python("tools.__class__.__mro__"), Ends: "program unsupported", Says: "AttributeError"},
	{Key: "a function that leads nowhere", Source: python("def f(): pass\nf.__globals__"), Ends: "program", Says: "AttributeError"},
	{Key: "the subclasses of everything", Source: python("[].__class__.__base__.__subclasses__()"), Ends: "program"},
	{Key: "eval as a way out", Source: python("eval('open(\"/etc/passwd\")')"), Ends: "program", Says: "PermissionError"},
}

func TestAWorkerThatIsNotInstalledIsNotAvailable(t *testing.T) {
	t.Parallel()
	e := monty.New(monty.Options{Find: func() (string, error) { return "", os.ErrNotExist }})
	t.Cleanup(func() { _ = e.Close() })
	if p := e.Probe(t.Context()); p.State == "available" || p.Fix != "toolroom setup engines" {
		t.Errorf("%+v", p)
	}
	if _, err := e.Run(t.Context(), engine.Job{}, nil); err != nil && errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// unnamed is a call handler whose tool returns an object with an empty name in it.
type unnamed struct{ bridge.Handler }

func (unnamed) Call(context.Context, string, bridge.Map) (bridge.Value, error) {
	return bridge.Map{{Key: "", Value: "found"}}, nil
}

func TestTheResultOfACommandMayHaveAnEmptyName(t *testing.T) {
	t.Parallel()
	e := open(t)
	r, err := e.Run(t.Context(), job(`cli.web.fetch().get("")`, bridge.Limits{}), unnamed{})
	if err != nil || r.Outcome.Failure != nil || r.Outcome.Value != "found" {
		t.Errorf("the program ended with %+v, %v, want the value of the empty name", r, err)
	}
	e.Close() // not deferred: after a panic in Run it would wait for ever
}

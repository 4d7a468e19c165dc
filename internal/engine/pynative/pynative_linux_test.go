package pynative_test

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/pynative"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// The test's own binary is the init of sandboxes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	os.Exit(m.Run())
}

var options = enginetest.Options{
	New:    func(*testing.T) engine.Engine { return pynative.New(pynative.Options{}) },
	Stream: 3, Bad: bad,
}

func TestTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, options)
}

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	enginetest.Bad(t, options)
}

func TestAttacksFromInsideFail(t *testing.T) {
	t.Parallel()
	enginetest.Attack(t, options)
}

func python(source string) map[string]string { return map[string]string{"python": source} }

// bad are programs that this engine must end besides those of the suite.
var bad = []enginetest.BadProgram{
	{Key: "a loop over its CPU time", Source: python("while True: pass"), Limits: bridge.Limits{CPU: 500}, Ends: "resource_limit"},
	{Key: "a loop that ignores the signal for its CPU time", Source: python("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"), Limits: bridge.Limits{CPU: 500}, Ends: "resource_limit"},
	{Key: "deep recursion with its guard removed", Source: python("import sys\nsys.setrecursionlimit(10**9)\ndef f(*a): f(*a)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())"), Limits: bridge.Limits{Memory: 256 << 20}, Ends: "execution_failed"},
	{Key: "shared memory as a bomb", Source: python("import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 24))"), Ends: "program"},
	{Key: "a thread bomb", Source: python("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"), Limits: bridge.Limits{Memory: 256 << 20}, Ends: "program"},
	{Key: "a giant integer", Source: python("10 ** 10 ** 10"), Limits: bridge.Limits{Memory: 256 << 20}, Ends: "timeout"},
	{Key: "a full disk", Source: python("n = 0\nwhile True:\n    open(str(n), 'w').write('x' * 1_000_000)\n    n += 1"), Limits: bridge.Limits{Memory: 256 << 20}, Ends: "program"},
}

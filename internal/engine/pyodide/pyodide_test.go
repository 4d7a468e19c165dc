//go:build integration

package pyodide_test

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/bridge"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/install"
	"github.com/toolroom/toolroom/internal/engine/pyodide"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// The test's own binary is the init of sandboxes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	os.Exit(withCache(m.Run))
}

// snapshots is the folder that all engines of the tests share.
var snapshots string

func withCache(run func() int) int {
	folder, err := os.MkdirTemp("", "toolroom-pyodide")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	snapshots = folder
	return run()
}

// find finds what is installed in the home folder that TOOLROOM_TEST_PYODIDE
// names.
func find() (pyodide.Installed, error) {
	home := os.Getenv("TOOLROOM_TEST_PYODIDE")
	deno, err := install.Deno().Find(home, os.Getenv("PATH"))
	if err != nil {
		return pyodide.Installed{}, err
	}
	folder, err := install.Pyodide().Find(home, "")
	return pyodide.Installed{Deno: deno, Pyodide: folder, Files: install.Pyodide().Members()}, err
}

func open(t *testing.T) engine.Engine {
	t.Helper()
	if _, err := find(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v; install it with: toolroom --home FOLDER setup engines --with pyodide, and set TOOLROOM_TEST_PYODIDE to that folder", err)
		}
		t.Skipf("%v; TOOLROOM_TEST_PYODIDE names no home folder with Deno and Pyodide", err)
	}
	return pyodide.New(pyodide.Options{Find: find, CacheDir: snapshots})
}

var suite = enginetest.Options{
	New: open, Bare: true, Runs: 10, Memory: 128 << 20,
	Without: []string{"a folder is not made in the root"}, // the root is in memory, and the program's own
}

func TestTheEngineKeepsTheContract(t *testing.T) { enginetest.Run(t, suite) }

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) { enginetest.Bad(t, suite) }

func TestAttacksFromInsideFail(t *testing.T) { enginetest.Attack(t, suite) }

// Python reaches all of JavaScript: Deno has no permission to give it.
func TestJavaScriptLeadsNowhere(t *testing.T) {
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	source := `
import js
got = []
for try_ in [
    lambda: js.Deno.readTextFileSync("/run/folder/boot.py"), lambda: js.Deno.readTextFileSync("/etc/passwd"),
    lambda: js.Deno.writeTextFileSync("/tmp/x", "x"), lambda: js.Deno.env.get("PATH"), lambda: js.Deno.hostname(),
    lambda: js.Deno.Command.new("/bin/true").outputSync(), lambda: js.Deno.kill(2, "SIGKILL"),
    lambda: js.Deno.dlopen("libc.so.6", js.Object.new()), lambda: js.Deno.listen(js.JSON.parse('{"port": 0}')),
]:
    try:
        try_()
        got.append("done")
    except Exception as e:
        got.append("refused" if "NotCapable" in str(e) else str(e))
got`
	result, err := e.Run(t.Context(), engine.Job{Owner: "tester", Program: bridge.Program{Language: "python", Name: "main.py", Source: source}}, nil)
	if err != nil || result.Outcome.Failure != nil {
		t.Fatalf("%+v, %v", result, err)
	}
	got, _ := result.Outcome.Value.([]bridge.Value)
	if len(got) != 9 {
		t.Fatalf("got %v", got)
	}
	for i, one := range got {
		if one != bridge.Value("refused") {
			t.Errorf("attempt %d: %v", i, one)
		}
	}
}

func TestATokenIsOfNoUseWhenItsRunIsOver(t *testing.T) { enginetest.Tokens(t, suite) }

package pyodide_test

import (
	"os"
	"testing"

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

var suite = enginetest.Options{New: open, Bare: true, Runs: 10, Memory: 128 << 20}

func TestTheEngineKeepsTheContract(t *testing.T) { enginetest.Run(t, suite) }

func TestBadCodeEndsInItsWayAndHarmsNoOther(t *testing.T) { enginetest.Bad(t, suite) }

func TestAttacksFromInsideFail(t *testing.T) { enginetest.Attack(t, suite) }

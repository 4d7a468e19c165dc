package py_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/py"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == py.WorkerArg {
		os.Exit(py.Worker(context.Background(), os.Args[2:]))
	}
	os.Exit(withCache(m.Run))
}

// compiled is the folder of compiled code shared by all engines of the tests.
var compiled string

func withCache(run func() int) int {
	folder, err := enginetest.MakeCache()
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	compiled = filepath.Join(folder, "python")
	py.Compiled = compiled
	// The engine makes the files of the folder readable for its workers. A test that
	// compiled in this process at the same time would replace them by files that the
	// workers cannot read.
	e, err := newEngine()
	if err != nil {
		panic(err)
	}
	e.Probe(context.Background())
	if err := e.Close(); err != nil {
		panic(err)
	}
	return run()
}

func newEngine() (engine.Engine, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return py.New(py.Options{Command: []string{self, py.WorkerArg}, CacheDir: compiled}), nil
}

func open(t testing.TB) engine.Engine {
	t.Helper()
	e, err := newEngine()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheEngineFulfilsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, suite)
}

func TestAMissingModuleIsLeftToAnotherEngine(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	j := engine.Job{Owner: "tester", Program: bridge.Program{Language: "python", Name: "main.py", Source: "import ssl"}}
	result, err := e.Run(t.Context(), j, nil)
	if err != nil || result.Outcome.Failure == nil || result.Outcome.Failure.Kind != bridge.FailUnsupported {
		t.Errorf("it ended with %+v, %v", result, err)
	}
}

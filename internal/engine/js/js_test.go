package js_test

import (
	"context"
	"os"
	"testing"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/js"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg {
		os.Exit(js.Worker(context.Background(), os.Args[2:]))
	}
	os.Exit(withCache(m.Run))
}

// compiled is the folder of compiled code that all engines of the tests share.
var compiled string

func withCache(run func() int) int {
	folder, err := os.MkdirTemp("", "toolroom-js")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	compiled = folder
	return run()
}

func inProcess(t testing.TB) *js.Engine {
	t.Helper()
	return js.New(js.Options{CacheDir: compiled})
}

func inWorkers(t testing.TB) *js.Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return js.New(js.Options{Command: []string{self, js.WorkerArg}, CacheDir: compiled})
}

func TestTheEngineKeepsTheContractInThisProcess(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Options{New: func(t *testing.T) engine.Engine { return inProcess(t) }})
}

func TestTheEngineKeepsTheContractInWorkers(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Options{New: func(t *testing.T) engine.Engine { return inWorkers(t) }})
}

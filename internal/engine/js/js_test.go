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
	os.Exit(m.Run())
}

func inProcess(t testing.TB) *js.Engine {
	t.Helper()
	return js.New(js.Options{CacheDir: t.TempDir()})
}

func inWorkers(t testing.TB) *js.Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return js.New(js.Options{Command: []string{self, js.WorkerArg}, CacheDir: t.TempDir()})
}

func TestTheEngineKeepsTheContractInThisProcess(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Options{New: func(t *testing.T) engine.Engine { return inProcess(t) }})
}

func TestTheEngineKeepsTheContractInWorkers(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Options{New: func(t *testing.T) engine.Engine { return inWorkers(t) }})
}

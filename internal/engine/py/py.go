// Package py is the engine for Python that needs no Python of the host: CPython
// as WebAssembly, in worker processes that are this same binary.
package py

import (
	"context"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/cpython"
	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/engine/worker"
	files "github.com/toolroom/toolroom/internal/guest"
)

// Name is the engine's id.
const Name = "py"

// Options say how the engine runs.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments
	// that lead it to [Worker], such as [WorkerArg].
	Command []string
	// Init is the command that begins the sandbox of a worker; empty is Command.
	// A small binary starts sooner.
	Init []string
	// CacheDir keeps compiled code and the image of the interpreter between
	// starts, which then take a fraction of a second in place of many. It must
	// be private to the user of this process, since what lies there is
	// executed. Empty means none.
	CacheDir string
	// Workers is how many programs run at once, [worker.DefaultSize] if zero.
	// Further ones wait.
	Workers int
}

// New makes the engine. Nothing is started before the first run or probe.
func New(o Options) *worker.Engine {
	return worker.NewEngine(worker.Kind{
		Name: Name, Languages: []string{"python"}, Version: cpython.Version,
		Wall: "fuel, then kill", CPU: worker.CPUClock(), Memory: "WebAssembly memory, the interpreter's included",
		MinMemory: cpython.MinMemory, MaxMemory: cpython.MaxMemory, Needs: "250 MiB of memory",
		Prepare: func(*bridge.Program) (func(*bridge.Failure), *bridge.Failure) { return classify, nil },
	}, o.Workers, worker.NewSelf("wasm", o.Command, o.Init, o.CacheDir).Start, nil)
}

// classify says of a failure what only this engine knows.
func classify(f *bridge.Failure) {
	switch {
	case f.Type == "ModuleNotFoundError":
		// Another Python may have it: one of the host, with its wheels.
		f.Kind = bridge.FailUnsupported
	case f.Type == "SystemError" && strings.Contains(f.Message, "without exception set"):
		// Where CPython 3.12 runs out of memory it may forget to say so.
		f.Kind, f.Limit = bridge.FailLimit, "memory"
	}
}

// WorkerArg is the first argument of a binary that is executed to be a worker:
// its main must hand the arguments after it to [Worker].
const WorkerArg = "__python-worker"

// Worker is the main of a worker process. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	return worker.Main(ctx, arguments, worker.Open{Service: func(ctx context.Context, cacheDir string) (worker.Service, error) {
		m, err := cpython.New(ctx, files.PythonFiles(), wasm.Options{CacheDir: cacheDir})
		if err == nil {
			err = m.Warm(ctx)
		}
		return service{m}, err
	}})
}

// service is a machine whose interpreters run what the host sends.
type service struct{ *cpython.Machine }

// Package module is the engine for WebAssembly modules that callers bring:
// commands of WASI preview 1, in worker processes that are this same binary. A
// module is metered before it is compiled, has streams and nothing else of the
// system, and calls tools over descriptor 3, by the frames of the bridge.
package module

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// Name is the engine's id, and the language of its programs.
const Name = "wasm"

// languageCompile is that of a program which is to be compiled, and not run. The
// one of language [Name] that follows is run.
const languageCompile = "wasm-compile"

const (
	// MaxMemory is the largest limit of a module's memory, in bytes.
	MaxMemory = 1 << 30
	// MaxModule is the largest module, in bytes, when it is not packed.
	MaxModule = 64 << 20
	// maxSent is the largest that a frame of the bridge has room for, packed or not.
	maxSent = bridge.DefaultMaxFrame - 64<<10
	// maxProcess bounds a worker as a whole: a module's memory, and what compiling
	// takes.
	maxProcess = MaxMemory + 1<<30
)

// Options say how the engine runs.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments
	// that lead it to [Worker], such as [WorkerArg].
	Command []string
	// Init is the command that begins the sandbox of a worker; empty is Command.
	// A small binary starts sooner.
	Init []string
	// CompileTime bounds the compilation of a module, one minute if zero.
	CompileTime time.Duration
	// Workers is how many programs run at once, [worker.DefaultSize] if zero.
	// Further ones wait.
	Workers int
}

// New makes the engine. Nothing is started before the first run or probe.
func New(o Options) *worker.Engine {
	self := worker.NewSelf("wasm", o.Command, o.Init, "")
	self.Memory = maxProcess
	return worker.NewEngine(worker.Kind{
		Name: Name, Languages: []string{Name}, Version: "WASI preview 1", Stateless: true, Compile: languageCompile, CompileTime: cmp.Or(o.CompileTime, time.Minute),
		Wall: "fuel, then kill", Memory: "WebAssembly memory", MaxMemory: MaxMemory, Needs: "32 MiB of memory",
		Prepare: func(p *bridge.Program) (func(*bridge.Failure), *bridge.Failure) {
			refused := &bridge.Failure{Kind: bridge.FailCheck, Type: typeInvalid}
			switch n := len(p.Module); {
			case n == 0:
				refused.Message = "there is no module"
			case n > maxSent:
				refused.Message = fmt.Sprintf("the module has %d bytes, at most %d are sent to a worker: pack it by gzip", n, maxSent)
			default:
				return func(*bridge.Failure) {}, nil
			}
			return nil, refused
		},
	}, o.Workers, self.Start, nil)
}

// WorkerArg is the first argument of a binary that is executed to be a worker:
// its main must hand the arguments after it to [Worker].
const WorkerArg = "__module-worker"

// Worker is the main of a worker process. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	return worker.Main(ctx, arguments, worker.Open{Compiles: true, Service: func(ctx context.Context, _ string) (worker.Service, error) {
		m, err := newMachine(ctx)
		return service{m}, err
	}})
}

// service is a machine that runs the modules which the host sends.
type service struct{ *machine }

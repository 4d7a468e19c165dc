// Package js is the engine for JavaScript and TypeScript: QuickJS as
// WebAssembly, in worker processes of a small binary.
//
// It also prepares authors' programs, for itself and for engines whose interpreter is a
// sandbox's: [Prepare] turns the toolexec form, TypeScript, and programs that end in an
// expression into one asynchronous JavaScript function, finds mistakes in tool calls
// before anything runs, and maps positions back to the author's text. A [Bundle] joins
// the files of a function tool.
package js

import (
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// Name is the engine's id.
const Name = quickjs.Name

// Options configures the engine.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments that
	// lead it to [quickjs.Main], such as [quickjs.WorkerArg].
	Command []string
	// Init is the command that begins the sandbox of a worker; if it is empty, Command
	// is used. A small binary starts sooner.
	Init []string
	// CacheDir keeps compiled code between starts, which then take tens of
	// milliseconds instead of about a second. It must be private to the user of this
	// process, because its files are executed. Empty means none.
	CacheDir string
}

// New returns the engine. Nothing is started before the first run or probe.
func New(o Options) *worker.Engine {
	prepared := NewCache()
	return worker.NewEngine(worker.Kind{
		Name: Name, Languages: []string{"javascript", "typescript"}, Version: quickjs.Version,
		Wall: "interrupt, then fuel, then kill", CPU: worker.CPUClock(), Memory: "engine and WebAssembly memory", MaxMemory: quickjs.MaxMemory, Needs: "64 MiB of memory",
		Prepare: func(p *bridge.Program) (func(*bridge.Failure), *bridge.Failure) {
			ready, failure := prepared.Prepare(*p)
			if failure != nil {
				return nil, failure
			}
			p.Source = ready.Source
			return ready.MapFailure, nil
		},
	}, worker.NewSelf("wasm", o.Command, o.Init, o.CacheDir).Start)
}

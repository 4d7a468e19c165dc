package quickjs

import (
	"context"

	"github.com/toolroom/toolroom/internal/engine/worker"
)

// Name is the engine's id.
const Name = "js"

// WorkerArg is the first argument of a binary that is executed as a worker. Its
// main must pass the arguments after it to [Main].
const WorkerArg = "__engine-worker"

// Main is the main function of a worker process. It returns the exit code.
func Main(ctx context.Context, arguments []string) int {
	return worker.Main(ctx, arguments, worker.ServiceConfig{Waits: true, Service: func(ctx context.Context, cacheDir string) (worker.Service, error) {
		m, err := New(ctx, Prelude(), cacheDir)
		return service{m}, err
	}})
}

// service is a machine whose isolates run the programs that the server sends.
type service struct{ *Machine }

package worker

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// Service serves programs in a worker process.
type Service interface {
	// Serve serves the bridge until the stream ends.
	Serve(ctx context.Context, stream io.ReadWriter) error
	Close() error
}

// ServiceConfig describes the service of a worker process.
type ServiceConfig struct {
	// Service opens the service and compiles all that can be compiled, using a
	// folder of compiled code, or none if the path is empty.
	Service func(ctx context.Context, cacheDir string) (Service, error)
	// Compiles means that the service compiles more code while it serves.
	Compiles bool
	// Waits means that the goroutine that runs a program also reads the stream for it. A read
	// then blocks its thread, so that a frame wakes only that thread.
	Waits bool
}

// Main is the main function of a worker process that [Self] has started. It serves
// the bridge on stdin and stdout until the server ends it. It returns the exit code.
func Main(ctx context.Context, arguments []string, open ServiceConfig) int {
	if len(arguments) > 0 && arguments[0] == lockdown.InitArg {
		return lockdown.Main()
	}
	if err := serveStdio(ctx, arguments, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startMemory is how much memory, in bytes, a worker may use before its collector
// runs while it loads compiled code. Collecting earlier takes a fifth of the start.
const startMemory = 64 << 20

func serveStdio(ctx context.Context, arguments []string, open ServiceConfig) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	cacheDir := flags.String("cache", "", "folder of compiled code")
	warm := flags.Bool("warm", false, "fill that folder, and end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	collectAsUsual := func() {}
	if compiled := *cacheDir != "" && !*warm; compiled {
		percent, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(startMemory)
		collectAsUsual = func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) }
	}
	service, err := open.Service(ctx, *cacheDir)
	collectAsUsual()
	if err != nil {
		return err
	}
	defer service.Close()
	if *warm {
		return nil
	}
	// One thread runs the program, another receives its cancellation.
	runtime.GOMAXPROCS(2)
	debug.FreeOSMemory() // the compiler's memory
	in, err := stdin(open.Waits)
	if err != nil {
		return fmt.Errorf("open the stream of the worker: %w", err)
	}
	// All files are open now; from here on, untrusted code runs.
	if err := lock(open.Compiles); err != nil {
		return fmt.Errorf("lock the worker: %w", err)
	}
	return service.Serve(ctx, stdio{in})
}

// stdio is a stream that reads stdin and writes stdout.
type stdio struct{ io.Reader }

// Write writes to stdout.
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

// stdin returns a reader of stdin. It blocks its thread if waits is set.
func stdin(waits bool) (io.Reader, error) {
	if waits {
		return os.Stdin, nil
	}
	return polled(os.Stdin)
}

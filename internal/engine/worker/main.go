package worker

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/toolroom/toolroom/internal/engine/lookout"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// Service is what a worker process does once it has started.
type Service interface {
	// Serve serves the bridge until the stream ends.
	Serve(ctx context.Context, stream io.ReadWriter) error
	Close() error
}

// Open says what a worker serves.
type Open struct {
	// Service opens and compiles all that there is to be, with a folder of
	// compiled code, empty for none.
	Service func(ctx context.Context, cacheDir string) (Service, error)
	// Compiles means that it compiles further code while it serves.
	Compiles bool
	// Waits means that the goroutine that runs a program reads the stream for it:
	// then a read may hold its thread, and a frame wakes that and nothing else.
	Waits bool
}

// Main is the main of a worker process that [Self] has started: it serves the
// bridge on stdin and stdout until the host ends it. It returns the exit code.
func Main(ctx context.Context, arguments []string, open Open) int {
	if len(arguments) > 0 && arguments[0] == lockdown.InitArg {
		return lockdown.Main()
	}
	if err := work(ctx, arguments, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// ballastSize is what counts as in use while a worker starts, in bytes.
const ballastSize = 16 << 20

func work(ctx context.Context, arguments []string, open Open) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	cacheDir := flags.String("cache", "", "folder of compiled code")
	warm := flags.Bool("warm", false, "fill that folder, and end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	// Nobody touches it, and the collector begins when what is in use has doubled:
	// else a fifth of the start would be collecting.
	ballast := make([]byte, ballastSize)
	service, err := open.Service(ctx, *cacheDir)
	if err != nil {
		return err
	}
	defer service.Close()
	if *warm {
		return nil
	}
	// One thread runs the program, another hears that it is cancelled.
	runtime.GOMAXPROCS(2)
	runtime.KeepAlive(ballast)
	debug.FreeOSMemory() // what the compiler needed
	in, err := stdin(open.Waits)
	if err != nil {
		return fmt.Errorf("open the stream of the worker: %w", err)
	}
	// All that has to be opened is; what follows is a stranger's.
	if err := lock(open.Compiles); err != nil {
		return fmt.Errorf("lock the worker: %w", err)
	}
	return service.Serve(ctx, standard{in})
}

// standard is the stream of stdin and stdout.
type standard struct{ io.Reader }

// Write writes to stdout.
func (standard) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

// Expect is that of a [lookout.Reader], where stdin is read by one.
func (s standard) Expect(h *lookout.Habit) {
	if r, ok := s.Reader.(*lookout.Reader); ok {
		r.Expect(h)
	}
}

func stdin(waits bool) (io.Reader, error) {
	if !waits {
		return polled(os.Stdin)
	}
	source, err := lookout.Held(os.Stdin)
	return lookout.NewReader(source), err
}

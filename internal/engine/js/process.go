package js

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/prelude"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// guest is a worker that has said hello.
type guest struct {
	place
	conn *bridge.Conn
}

// place is where a guest runs: a process, or this one.
type place interface {
	io.ReadWriteCloser
	Isolation() string
	End()
	LastWords() string
}

// End ends the guest.
func (g *guest) End() {
	_ = g.conn.Close() // it is killed next
	g.place.End()
}

// killGrace is how long a worker may take to end a cancelled program by itself,
// before it is killed.
const killGrace = 60 * time.Millisecond

// connect waits for the hello of a guest that has been started.
func connect(ctx context.Context, p place, err error) (*guest, error) {
	if err != nil {
		return nil, unavailable(err)
	}
	conn, err := bridge.Accept(ctx, p, bridge.Options{Grace: killGrace})
	if err != nil {
		p.End()
		return nil, unavailable(fmt.Errorf("%w%s", err, p.LastWords()))
	}
	return &guest{p, conn}, nil
}

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no JavaScript worker could be started: %w", err).
		WithHint("toolroom doctor tells what this machine allows")
}

// standard is the stream of stdin and stdout.
type standard struct{ *os.File }

// Write writes to stdout.
func (standard) Write(b []byte) (int, error) { return os.Stdout.Write(b) }

// WorkerArg is the first argument of a binary that is executed to be a worker:
// its main must hand the arguments after it to [Worker].
const WorkerArg = "__engine-worker"

// Worker is the main of a worker process: it serves the bridge on stdin and
// stdout until the host ends it. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	if len(arguments) > 0 && arguments[0] == lockdown.InitArg {
		return lockdown.Main()
	}
	if err := work(ctx, arguments); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	cacheDir := flags.String("cache", "", "folder of compiled code")
	warm := flags.Bool("warm", false, "fill that folder, and end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	m, err := quickjs.New(ctx, quickjs.Options{Prelude: prelude.JavaScript(), CacheDir: *cacheDir})
	if err != nil {
		return err
	}
	defer m.Close()
	if *warm {
		return nil
	}
	// One thread runs the program, another hears that it is cancelled.
	runtime.GOMAXPROCS(2)
	debug.FreeOSMemory() // what the compiler needed
	in, err := polled(os.Stdin)
	if err != nil {
		return fmt.Errorf("open the stream of the JavaScript worker: %w", err)
	}
	// All that has to be opened or compiled is; what follows is a stranger's.
	if err := lock(); err != nil {
		return fmt.Errorf("lock the JavaScript worker: %w", err)
	}
	return serve(ctx, m, standard{in})
}
